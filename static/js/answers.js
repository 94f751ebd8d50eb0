// What a script makes of an answer. Who is signed out is sent on to another page: that is no answer to what was asked.
export const SIGNED_OUT = "You are signed out: sign in in another tab, then reload this page";

export function isElsewhere(answer, path) {
  return answer.redirected && new URL(answer.url).pathname !== new URL(path, location).pathname;
}
