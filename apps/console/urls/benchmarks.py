"""Benchmarks, and the courses that learn them."""

from django.urls import path

from apps.console.views import benchmarks, courses

urlpatterns = [
    path("benchmarks/", benchmarks.list_benchmarks, name="benchmark-list"),
    path("benchmarks/catalogue/", benchmarks.list_catalogue, name="catalogue"),
    path("benchmarks/install/", benchmarks.install, name="benchmark-install"),
    path("benchmarks/<int:benchmark_id>/", benchmarks.show_benchmark, name="benchmark"),
    path("benchmarks/<int:benchmark_id>/run/", benchmarks.run, name="benchmark-run"),
    path("benchmarks/<int:benchmark_id>/leaderboard/", benchmarks.show_leaderboard, name="leaderboard"),
    path("benchmarks/<int:benchmark_id>/learn/", courses.start, name="course-new"),
    path("courses/", courses.list_courses, name="course-list"),
    path("courses/<int:course_id>/", courses.show_course, name="course"),
    path("courses/<int:course_id>/pause/", courses.pause, name="course-pause"),
    path("courses/<int:course_id>/resume/", courses.resume, name="course-resume"),
    path("courses/<int:course_id>/cancel/", courses.cancel, name="course-cancel"),
]
