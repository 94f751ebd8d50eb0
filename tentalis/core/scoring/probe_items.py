"""Fixed questions with known answers, on which a judge is probed: what a judge that reads sees to be right or wrong.

Whoever changes one changes what all later probes are compared with: then drift begins anew.
"""

from typing import Final, NamedTuple


class ProbeItem(NamedTuple):
    """A question that has one answer.

    Args:
        prompt: what is asked.
        key: what the first sentence of a right answer holds, as words.
        right, other: two right answers in other words. wrong: one that says something else, as surely.
    """

    prompt: str
    key: str
    right: str
    other: str
    wrong: str


ITEMS: Final = (
    ProbeItem(
        "What is 17 times 24?",
        "408",
        "17 times 24 is 408. Twenty times 17 is 340, and four times 17 is 68.",
        "It is 408. You get it as 24 times 10 plus 24 times 7, which is 240 plus 168.",
        "17 times 24 is 428. Twenty times 17 is 360, and four times 17 is 68.",
    ),
    ProbeItem(
        "A shop sells a coat of 80 euros at 25 % off. What does it cost now?",
        "60",
        "It costs 60 euros. A quarter of 80 is 20, which is taken off.",
        "The coat is now 60 euros, for three quarters of the price are left.",
        "It costs 55 euros. A quarter of 80 is 25, which is taken off.",
    ),
    ProbeItem(
        "A train leaves at 09:40 and arrives at 12:05. How many minutes does it take?",
        "145",
        "It takes 145 minutes. From 09:40 to 11:40 are 120, and 25 more follow.",
        "The ride is 145 minutes long, which is 2 hours and 25 minutes.",
        "It takes 165 minutes. From 09:40 to 11:40 are 120, and 45 more follow.",
    ),
    ProbeItem(
        "How many seconds are in two and a half hours?",
        "9000",
        "Two and a half hours have 9000 seconds. An hour has 3600.",
        "There are 9000. It is 150 minutes, and each has 60 seconds.",
        "Two and a half hours have 8400 seconds. An hour has 3600.",
    ),
    ProbeItem(
        "Which is larger, 3/8 or 2/5?",
        "2 5",
        "2/5 is larger. As decimals they are 0.4 and 0.375.",
        "The larger one is 2/5, for 16/40 is more than 15/40.",
        "3/8 is larger. As decimals they are 0.375 and 0.35.",
    ),
    ProbeItem(
        "What is the next number: 2, 6, 18, 54?",
        "162",
        "The next number is 162. Each number is three times the one before.",
        "It is 162, because the row goes on by a factor of 3.",
        "The next number is 108. Each number is twice the one before.",
    ),
    ProbeItem(
        "What is the sum of the whole numbers from 1 to 20?",
        "210",
        "The sum is 210. It is 20 times 21 divided by 2.",
        "They add up to 210: ten pairs, each of which makes 21.",
        "The sum is 190. It is 20 times 19 divided by 2.",
    ),
    ProbeItem(
        "How many days does February have in the year 2024?",
        "29",
        "February 2024 has 29 days, for 2024 is a leap year.",
        "It has 29 days. The year can be divided by 4, and so it leaps.",
        "February 2024 has 28 days, for 2024 is no leap year.",
    ),
    ProbeItem(
        "If today is Wednesday, which day of the week is it in 10 days?",
        "saturday",
        "In 10 days it is Saturday. After seven days it is Wednesday again, and three more follow.",
        "It will be Saturday, since ten days are one week and three days.",
        "In 10 days it is Friday. After seven days it is Wednesday again, and two more follow.",
    ),
    ProbeItem(
        "A rectangle is 7 metres long and 4 metres wide. What is its perimeter in metres?",
        "22",
        "Its perimeter is 22 metres. Both lengths make 14 and both widths 8.",
        "It is 22 metres around: twice the sum of 7 and 4.",
        "Its perimeter is 28 metres. It is the length times the width.",
    ),
    ProbeItem(
        "How many grams are 2.35 kilograms?",
        "2350",
        "2.35 kilograms are 2350 grams. A kilogram has 1000.",
        "They are 2350 grams, because you multiply by a thousand.",
        "2.35 kilograms are 235 grams. A kilogram has 100.",
    ),
    ProbeItem(
        "What is the smallest prime number above 30?",
        "31",
        "It is 31. Nothing but 1 and itself divides it.",
        "The smallest prime above 30 is 31, the very next number.",
        "It is 33. Nothing but 1 and itself divides it.",
    ),
    ProbeItem(
        "What is the number 13 in binary?",
        "1101",
        "13 in binary is 1101. It is 8 plus 4 plus 1.",
        "It is written 1101, for 13 has an 8, a 4, no 2 and a 1.",
        "13 in binary is 1011. It is 8 plus 4 plus 1.",
    ),
    ProbeItem(
        "Three pens cost 4.50 euros. What do eight cost, at the same price each?",
        "12",
        "Eight pens cost 12 euros. One costs 1.50.",
        "They cost 12 euros, because each pen is 1.50 and eight are bought.",
        "Eight pens cost 13.50 euros. One costs 1.50.",
    ),
    ProbeItem(
        "What is the average of 4, 8, 15 and 17?",
        "11",
        "The average is 11. The four numbers add up to 44.",
        "It is 11: a sum of 44, shared by four.",
        "The average is 12. The four numbers add up to 48.",
    ),
    ProbeItem(
        "How many letters does the word 'library' have?",
        "7",
        "The word has 7 letters: l, i, b, r, a, r and y.",
        "It has 7. They are l-i-b and r-a-r-y.",
        "The word has 8 letters: l, i, b, r, a, r and y.",
    ),
    ProbeItem(
        "Write the word 'stone' backwards.",
        "enots",
        "Backwards it is enots. Its last letter comes first.",
        "It reads enots, from the e at its end to the s.",
        "Backwards it is entos. Its last letter comes first.",
    ),
    ProbeItem(
        "Put these in alphabetical order: pear, apple, plum, fig.",
        "apple fig pear plum",
        "The order is apple, fig, pear, plum.",
        "In the alphabet they stand as apple, fig, pear, plum.",
        "The order is apple, fig, plum, pear.",
    ),
    ProbeItem(
        "What is the plural of the English word 'mouse', the animal?",
        "mice",
        "The plural is mice. It is an irregular one.",
        "One says mice, for the word changes inside.",
        "The plural is mouses. It is a regular one.",
    ),
    ProbeItem(
        "Anna is older than Ben, and Ben is older than Carl. Who is the youngest of the three?",
        "carl",
        "Carl is the youngest. Ben is older than he is, and Anna is older than Ben.",
        "The youngest is Carl, since both others are older.",
        "Ben is the youngest. Carl is older than he is, and Anna is older than Carl.",
    ),
    ProbeItem(
        "All cats in the house are black. Tom is a cat in the house. What colour is Tom?",
        "black",
        "Tom is black. All cats in the house are, and he is one of them.",
        "He must be black, because that holds for every cat there.",
        "Tom is grey. Not all cats in the house are black, and he is one of them.",
    ),
    ProbeItem(
        "Which planet is closest to the Sun?",
        "mercury",
        "Mercury is closest to the Sun. Venus comes after it.",
        "It is Mercury, the innermost of the eight planets.",
        "Venus is closest to the Sun. Mercury comes after it.",
    ),
    ProbeItem(
        "What is the capital of Australia?",
        "canberra",
        "The capital of Australia is Canberra. Sydney is its largest city.",
        "It is Canberra, which lies between Sydney and Melbourne.",
        "The capital of Australia is Sydney. It is also its largest city.",
    ),
    ProbeItem(
        "Which gas do plants take in from the air for photosynthesis?",
        "carbon dioxide",
        "They take in carbon dioxide. They give off oxygen.",
        "It is carbon dioxide, which they make sugar of with water and light.",
        "They take in oxygen. They give off carbon dioxide.",
    ),
    ProbeItem(
        "At how many degrees Celsius does water boil at sea level?",
        "100",
        "Water boils at 100 degrees Celsius at sea level. On mountains it boils earlier.",
        "At sea level it boils at 100 degrees; higher up less is enough.",
        "Water boils at 90 degrees Celsius at sea level. On mountains it boils later.",
    ),
    ProbeItem(
        "How many sides does a hexagon have?",
        "6",
        "A hexagon has 6 sides. It has as many corners.",
        "It has 6 sides, as the cells of a honeycomb do.",
        "A hexagon has 8 sides. It has as many corners.",
    ),
    ProbeItem(
        "What does len([3, 1, 2, 1]) give in Python?",
        "4",
        "It gives 4. The list has four elements, and equal ones count each.",
        "The result is 4, for len counts every element.",
        "It gives 3. The list has three elements, and equal ones count once.",
    ),
    ProbeItem(
        "What does 'abc'[1] give in Python?",
        "b",
        "It gives b. Indices begin at 0, so that 1 is the second letter.",
        "The result is b, the second letter, because Python counts from 0.",
        "It gives a. Indices begin at 1, so that 1 is the first letter.",
    ),
    ProbeItem(
        "What does 7 // 2 give in Python 3?",
        "3",
        "It gives 3. Two slashes divide and round down.",
        "The result is 3, for the division leaves the rest away.",
        "It gives 3.5. Two slashes divide and keep the rest.",
    ),
    ProbeItem(
        "A parcel of 3 kg costs 5 euros plus 2 euros per kg. What does it cost altogether?",
        "11",
        "It costs 11 euros. Three kilograms are 6, and the 5 come on top.",
        "Altogether it is 11 euros: 5 at first and 2 for each of 3 kg.",
        "It costs 21 euros. Three times the 5 and the 2 together.",
    ),
    ProbeItem(
        "Orders placed after 14:00 are sent the next day. An order is placed on Monday at 15:30. When is it sent?",
        "tuesday",
        "It is sent on Tuesday. The order came after 14:00.",
        "On Tuesday, because 15:30 is past the time for the same day.",
        "It is sent on Monday. The order came before 14:00.",
    ),
    ProbeItem(
        "Goods can be returned within 30 days. Something was bought on 1 March and is brought back on 5 April. Is "
        "it in time, yes or no?",
        "no",
        "No, it is too late. From 1 March to 5 April are 35 days.",
        "The answer is no: the 30 days ended on 31 March.",
        "Yes, it is in time. From 1 March to 5 April are 25 days.",
    ),
)
