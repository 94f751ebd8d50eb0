"""Small programs that a team asked for, what came in, and hidden cases by which each answer's quality is known.

The answers are of the kinds that people and models write: right ones, ones that forget a case which the task names,
ones that do something else well, and ones that cannot run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, Final


@dataclass(frozen=True)
class CodeTask:
    """One function to be written.

    Args:
        cases: {"args", "returns"} or {"args", "raises"} each, as the code grader takes them; no judge sees them.
    """

    function: str
    prompt: str
    cases: Sequence[Mapping[str, Any]]
    answers: Sequence[str]

    @property
    def reference(self) -> Mapping[str, Any]:
        return {"function": self.function, "cases": list(self.cases)}


def _task(signature: str, words: str, cases: Sequence[tuple[list[Any], Any]], *answers: str) -> CodeTask:
    """A result that is a class of errors is one that has to be raised."""
    told = [
        {"args": args, "raises": wanted.__name__}
        if isinstance(wanted, type) and issubclass(wanted, Exception)
        else {"args": args, "returns": wanted}
        for args, wanted in cases
    ]
    prompt = f"Write a Python function `{signature}`. {words}"
    return CodeTask(signature.partition("(")[0], prompt, told, [dedent(answer).strip() + "\n" for answer in answers])


TASKS: Final[Sequence[CodeTask]] = (
    _task(
        "last_word(text)",
        "It returns the last word of a text whose words are separated by any white space. An empty text has "
        "none: return ''.",
        [
            (["to be or not"], "not"),
            (["one"], "one"),
            ([""], ""),
            (["  "], ""),
            (["a\tb\nc "], "c"),
        ],
        """
        def last_word(text):
            words = text.split()
            return words[-1] if words else ''
        """,
        """
        def last_word(text):
            return text.split(' ')[-1]
        """,
        """
        def last_word(text):
            return text.split()[-1]
        """,
    ),
    _task(
        "count_vowels(text)",
        "It returns how many of the letters a, e, i, o and u stand in a text, ignoring case.",
        [
            (["hello"], 2),
            (["AEIOU"], 5),
            ([""], 0),
            (["Rhythm"], 0),
            (["Otto asks"], 3),
        ],
        """
        def count_vowels(text):
            return sum(letter in 'aeiou' for letter in text.lower())
        """,
        """
        def count_vowels(text):
            count = 0
            for letter in text:
                if letter in 'aeiou':
                    count += 1
            return count
        """,
        """
        def count_vowels(text):
            return len(set(text.lower()) & set('aeiou'))
        """,
    ),
    _task(
        "median(numbers)",
        "It returns the middle of the sorted numbers, and of an even number of them the mean of the two in "
        "the middle. An empty list raises ValueError.",
        [
            ([[3, 1, 2]], 2),
            ([[4, 1, 3, 2]], 2.5),
            ([[7]], 7),
            ([[]], ValueError),
            ([[5, 5, 1]], 5),
        ],
        """
        def median(numbers):
            if not numbers:
                raise ValueError('no numbers')
            ranked = sorted(numbers)
            half = len(ranked) // 2
            if len(ranked) % 2:
                return ranked[half]
            return (ranked[half - 1] + ranked[half]) / 2
        """,
        """
        def median(numbers):
            numbers = sorted(numbers)
            return numbers[len(numbers) // 2]
        """,
        """
        def median(numbers):
            return sum(numbers) / len(numbers)
        """,
    ),
    _task(
        "is_palindrome(text)",
        "It says whether a text reads the same backwards, ignoring case and all that is no letter or digit.",
        [
            (["Level"], True),
            (["A man, a plan, a canal: Panama"], True),
            (["no"], False),
            ([""], True),
            (["ab"], False),
        ],
        """
        def is_palindrome(text):
            kept = [sign.lower() for sign in text if sign.isalnum()]
            return kept == kept[::-1]
        """,
        """
        def is_palindrome(text):
            return text == text[::-1]
        """,
        """
        def is_palindrome(text):
            text = text.lower()
            return text == reversed(text)
        """,
    ),
    _task(
        "clamp(value, low, high)",
        "It returns the value, or the bound that it lies beyond. Bounds in the wrong order raise ValueError.",
        [
            ([5, 0, 10], 5),
            ([-1, 0, 10], 0),
            ([11, 0, 10], 10),
            ([1, 3, 2], ValueError),
            ([2, 2, 2], 2),
        ],
        """
        def clamp(value, low, high):
            if low > high:
                raise ValueError(f'{low} is above {high}')
            return max(low, min(high, value))
        """,
        """
        def clamp(value, low, high):
            return max(low, min(high, value))
        """,
        """
        def clamp(value, low, high):
            if value < low:
                return low
            elif value > high
                return high
            return value
        """,
    ),
    _task(
        "drop_duplicates(items)",
        "It returns the items in their order, each once: the first of those that are equal stays.",
        [
            ([[1, 2, 1, 3]], [1, 2, 3]),
            ([["b", "a", "b"]], ["b", "a"]),
            ([[]], []),
            ([[1, 1]], [1]),
            ([[3, 1, 2]], [3, 1, 2]),
        ],
        """
        def drop_duplicates(items):
            seen = set()
            kept = []
            for item in items:
                if item not in seen:
                    seen.add(item)
                    kept.append(item)
            return kept
        """,
        """
        def drop_duplicates(items):
            return list(set(items))
        """,
        """
        def drop_duplicates(items):
            return list(dict.fromkeys(items))
        """,
    ),
    _task(
        "parse_duration(text)",
        "It turns a text such as '1h30m', '45m' or '20s' into seconds. A text that is none raises ValueError.",
        [
            (["1h30m"], 5400),
            (["45m"], 2700),
            (["20s"], 20),
            (["2h"], 7200),
            (["soon"], ValueError),
            ([""], ValueError),
        ],
        """
        import re


        def parse_duration(text):
            found = re.fullmatch(r'(?:(\\d+)h)?(?:(\\d+)m)?(?:(\\d+)s)?', text)
            if not text or found is None:
                raise ValueError(f'no duration: {text!r}')
            hours, minutes, seconds = (int(part or 0) for part in found.groups())
            return hours * 3600 + minutes * 60 + seconds
        """,
        """
        def parse_duration(text):
            units = {'h': 3600, 'm': 60, 's': 1}
            total = 0
            number = ''
            for sign in text:
                if sign.isdigit():
                    number += sign
                else:
                    total += int(number) * units[sign]
                    number = ''
            return total
        """,
        """
        def parse_duration(text):
            number = int(text[:-1])
            if text.endswith('h'):
                return number * 3600
            if text.endswith('m'):
                return number * 60
            return number
        """,
    ),
    _task(
        "chunk(items, size)",
        "It cuts a list into lists of `size` items, the last of which may be shorter. A size below 1 raises "
        "ValueError.",
        [
            ([[1, 2, 3, 4], 2], [[1, 2], [3, 4]]),
            ([[1, 2, 3], 2], [[1, 2], [3]]),
            ([[], 3], []),
            ([[1], 0], ValueError),
            ([[1, 2], 5], [[1, 2]]),
        ],
        """
        def chunk(items, size):
            if size < 1:
                raise ValueError('size must be positive')
            return [items[i:i + size] for i in range(0, len(items), size)]
        """,
        """
        def chunk(items, size):
            return [items[i:i + size] for i in range(0, len(items), size)]
        """,
        """
        def chunk(items, size):
            chunks = []
            for i in range(len(items) // size):
                chunks.append(items[i * size:(i + 1) * size])
            return chunks
        """,
    ),
    _task(
        "flatten(items)",
        "It returns the items of nested lists, at any depth, in their order.",
        [
            ([[1, [2, [3]]]], [1, 2, 3]),
            ([[]], []),
            ([[[[]]]], []),
            ([[1, 2]], [1, 2]),
            ([[["a"], "b"]], ["a", "b"]),
        ],
        """
        def flatten(items):
            flat = []
            for item in items:
                if isinstance(item, list):
                    flat.extend(flatten(item))
                else:
                    flat.append(item)
            return flat
        """,
        """
        def flatten(items):
            return [inner for item in items for inner in item]
        """,
        """
        def flatten(items):
            flat = []
            for item in items:
                if isinstance(item, list):
                    flat += item
                else:
                    flat.append(item)
            return flat
        """,
    ),
    _task(
        "count_words(text)",
        "It returns how often each word stands in a text, as a dictionary. Words are separated by white "
        "space; case is ignored.",
        [
            (["a b a"], {"a": 2, "b": 1}),
            (["The the"], {"the": 2}),
            ([""], {}),
            ([" x  x "], {"x": 2}),
            (["one"], {"one": 1}),
        ],
        """
        from collections import Counter


        def count_words(text):
            return dict(Counter(text.lower().split()))
        """,
        """
        def count_words(text):
            counts = {}
            for word in text.split(' '):
                counts[word] = counts.get(word, 0) + 1
            return counts
        """,
        """
        def count_words(text):
            return len(text.lower().split())
        """,
    ),
    _task(
        "roman(number)",
        "It writes a number from 1 to 3999 in Roman numerals. Other numbers raise ValueError.",
        [
            ([4], "IV"),
            ([9], "IX"),
            ([1994], "MCMXCIV"),
            ([3], "III"),
            ([0], ValueError),
            ([4000], ValueError),
        ],
        """
        def roman(number):
            if not 1 <= number <= 3999:
                raise ValueError(f'out of range: {number}')
            signs = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'), (40, 'XL'),
                     (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]
            text = ''
            for value, sign in signs:
                text += sign * (number // value)
                number %= value
            return text
        """,
        """
        def roman(number):
            text = ''
            for value, sign in [(1000, 'M'), (500, 'D'), (100, 'C'), (50, 'L'), (10, 'X'), (5, 'V'), (1, 'I')]:
                while number >= value:
                    text += sign
                    number -= value
            return text
        """,
        """
        def roman(number):
            # TODO: larger numbers
            return {1: 'I', 2: 'II', 3: 'III', 4: 'IV', 5: 'V'}[number]
        """,
    ),
    _task(
        "gcd(a, b)",
        "It returns the greatest common divisor of two whole numbers, which may be negative; never a negative one.",
        [
            ([12, 18], 6),
            ([-4, 6], 2),
            ([0, 5], 5),
            ([7, 0], 7),
            ([-3, -9], 3),
        ],
        """
        def gcd(a, b):
            a, b = abs(a), abs(b)
            while b:
                a, b = b, a % b
            return a
        """,
        """
        def gcd(a, b):
            while b:
                a, b = b, a % b
            return a
        """,
        """
        def gcd(a, b):
            for d in range(min(a, b), 0, -1):
                if a % d == 0 and b % d == 0:
                    return d
        """,
    ),
    _task(
        "merge_ranges(ranges)",
        "It merges [start, end] pairs that overlap or touch, and returns them sorted by their start.",
        [
            ([[[1, 3], [2, 6], [8, 9]]], [[1, 6], [8, 9]]),
            ([[[1, 4], [4, 5]]], [[1, 5]]),
            ([[]], []),
            ([[[5, 6], [1, 2]]], [[1, 2], [5, 6]]),
            ([[[1, 9], [2, 3]]], [[1, 9]]),
        ],
        """
        def merge_ranges(ranges):
            merged = []
            for start, end in sorted(ranges):
                if merged and start <= merged[-1][1]:
                    merged[-1][1] = max(merged[-1][1], end)
                else:
                    merged.append([start, end])
            return merged
        """,
        """
        def merge_ranges(ranges):
            merged = []
            for start, end in sorted(ranges):
                if merged and start < merged[-1][1]:
                    merged[-1][1] = end
                else:
                    merged.append([start, end])
            return merged
        """,
        """
        def merge_ranges(ranges):
            merged = [ranges[0]]
            for start, end in ranges[1:]:
                if start <= merged[-1][1]:
                    merged[-1][1] = max(merged[-1][1], end)
                else:
                    merged.append([start, end])
            return merged
        """,
    ),
    _task(
        "to_snake(name)",
        "It turns a camelCase or PascalCase name into snake_case. An empty name stays empty.",
        [
            (["camelCase"], "camel_case"),
            (["PascalCase"], "pascal_case"),
            (["word"], "word"),
            ([""], ""),
            (["aBigName"], "a_big_name"),
        ],
        """
        def to_snake(name):
            parts = []
            for place, sign in enumerate(name):
                if sign.isupper() and place:
                    parts.append('_')
                parts.append(sign.lower())
            return ''.join(parts)
        """,
        """
        def to_snake(name):
            return ''.join('_' + c.lower() if c.isupper() else c for c in name)
        """,
        """
        def snake(name):
            import re
            return re.sub(r'(?<!^)(?=[A-Z])', '_', name).lower()
        """,
    ),
    _task(
        "is_leap(year)",
        "It says whether a year is a leap year of the Gregorian calendar.",
        [
            ([2024], True),
            ([2023], False),
            ([1900], False),
            ([2000], True),
            ([1600], True),
        ],
        """
        def is_leap(year):
            return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        """,
        """
        def is_leap(year):
            return year % 4 == 0
        """,
        """
        def is_leap(year):
            return year % 4 == 0 and year % 100 != 0
        """,
    ),
    _task(
        "find_index(items, wanted)",
        "It returns the first place of an item in a sorted list by halving, or -1 where it is not in it. An "
        "empty list has none.",
        [
            ([[1, 3, 5], 3], 1),
            ([[1, 3, 5], 4], -1),
            ([[], 1], -1),
            ([[2, 2, 2], 2], 0),
            ([[1, 2, 2, 3], 2], 1),
        ],
        """
        def find_index(items, wanted):
            low, high = 0, len(items)
            while low < high:
                middle = (low + high) // 2
                if items[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            return low if low < len(items) and items[low] == wanted else -1
        """,
        """
        def find_index(items, wanted):
            low, high = 0, len(items) - 1
            while low <= high:
                middle = (low + high) // 2
                if items[middle] == wanted:
                    return middle
                if items[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle - 1
            return -1
        """,
        """
        def find_index(items, wanted):
            return items.index(wanted)
        """,
    ),
    _task(
        "transpose(rows)",
        "It swaps the rows and columns of a table. Rows of unequal length raise ValueError; an empty table "
        "stays empty.",
        [
            ([[[1, 2], [3, 4]]], [[1, 3], [2, 4]]),
            ([[[1, 2, 3]]], [[1], [2], [3]]),
            ([[]], []),
            ([[[1], [2, 3]]], ValueError),
        ],
        """
        def transpose(rows):
            if not rows:
                return []
            if any(len(row) != len(rows[0]) for row in rows):
                raise ValueError('rows differ in length')
            return [list(column) for column in zip(*rows)]
        """,
        """
        def transpose(rows):
            return [list(column) for column in zip(*rows)]
        """,
        """
        def transpose(rows):
            for i in range(len(rows)):
                for j in range(len(rows)):
                    rows[i][j], rows[j][i] = rows[j][i], rows[i][j]
            return rows
        """,
    ),
    _task(
        "mask_email(address)",
        "It keeps the first letter of what stands before the @ and puts *** in place of the rest. A text "
        "without an @ raises ValueError.",
        [
            (["anna@example.org"], "a***@example.org"),
            (["b@x.de"], "b***@x.de"),
            (["nobody"], ValueError),
            (["long.name@mail.net"], "l***@mail.net"),
        ],
        """
        def mask_email(address):
            name, at, host = address.partition('@')
            if not at or not name:
                raise ValueError('no address')
            return f'{name[0]}***@{host}'
        """,
        """
        def mask_email(address):
            name, host = address.split('@')
            return name[0] + '***@' + host
        """,
        """
        def mask_email(address):
            print(address[0] + '***' + address[address.find('@'):])
        """,
    ),
    _task(
        "running_mean(numbers, size)",
        "It returns the means of each `size` neighbouring numbers. Where there are fewer it returns an empty "
        "list; a size below 1 raises ValueError.",
        [
            ([[1, 2, 3, 4], 2], [1.5, 2.5, 3.5]),
            ([[2, 4, 6], 3], [4.0]),
            ([[1], 2], []),
            ([[1], 0], ValueError),
            ([[5, 7], 1], [5.0, 7.0]),
        ],
        """
        def running_mean(numbers, size):
            if size < 1:
                raise ValueError('size below 1')
            return [sum(numbers[i:i + size]) / size for i in range(len(numbers) - size + 1)]
        """,
        """
        def running_mean(numbers, size):
            return [sum(numbers[i:i + size]) / size for i in range(len(numbers) - size)]
        """,
        """
        def running_mean(numbers, size):
            return sum(numbers) / size
        """,
    ),
    _task(
        "to_binary(number)",
        "It writes a whole number in base two without a prefix; of a negative one a minus stands in front.",
        [
            ([5], "101"),
            ([0], "0"),
            ([-3], "-11"),
            ([1], "1"),
            ([16], "10000"),
        ],
        """
        def to_binary(number):
            return ('-' if number < 0 else '') + bin(abs(number))[2:]
        """,
        """
        def to_binary(number):
            return bin(number)[2:]
        """,
        """
        def to_binary(number):
            digits = ''
            while number > 0:
                digits = str(number % 2) + digits
                number //= 2
            return digits
        """,
    ),
    _task(
        "group_by_length(words)",
        "It returns a dictionary of lengths and the words of that length, sorted. Words stand in a list once,"
        " however often they come.",
        [
            ([["a", "bb", "c"]], {1: ["a", "c"], 2: ["bb"]}),
            ([[]], {}),
            ([["b", "a"]], {1: ["a", "b"]}),
            ([["a", "a"]], {1: ["a"]}),
        ],
        """
        def group_by_length(words):
            groups = {}
            for word in sorted(set(words)):
                groups.setdefault(len(word), []).append(word)
            return groups
        """,
        """
        def group_by_length(words):
            groups = {}
            for word in words:
                groups.setdefault(len(word), []).append(word)
            return groups
        """,
        """
        def group_by_length(words):
            return sorted(words, key=len)
        """,
    ),
    _task(
        "split_bill(total_cents, people)",
        "It shares out an amount in cents among people as evenly as whole cents allow, the larger shares "
        "first. Fewer than one person raises ValueError.",
        [
            ([100, 3], [34, 33, 33]),
            ([10, 2], [5, 5]),
            ([1, 2], [1, 0]),
            ([0, 2], [0, 0]),
            ([5, 0], ValueError),
        ],
        """
        def split_bill(total_cents, people):
            if people < 1:
                raise ValueError('nobody pays')
            share, rest = divmod(total_cents, people)
            return [share + (place < rest) for place in range(people)]
        """,
        """
        def split_bill(total_cents, people):
            return [total_cents // people] * people
        """,
        """
        def split_bill(total_cents, people):
            return [round(total_cents / people) for _ in range(people)]
        """,
    ),
    _task(
        "caesar(text, shift)",
        "It moves each letter by `shift` places in the alphabet, round its end; a negative shift moves back. "
        "Case stays, and so does all that is no letter.",
        [
            (["abc", 1], "bcd"),
            (["xyz", 3], "abc"),
            (["Hi!", 1], "Ij!"),
            (["bcd", -1], "abc"),
            (["abc", 27], "bcd"),
        ],
        """
        def caesar(text, shift):
            moved = []
            for sign in text:
                if 'a' <= sign <= 'z':
                    moved.append(chr((ord(sign) - 97 + shift) % 26 + 97))
                elif 'A' <= sign <= 'Z':
                    moved.append(chr((ord(sign) - 65 + shift) % 26 + 65))
                else:
                    moved.append(sign)
            return ''.join(moved)
        """,
        """
        def caesar(text, shift):
            return ''.join(chr(ord(sign) + shift) for sign in text)
        """,
        """
        def caesar(text, shift):
            letters = 'abcdefghijklmnopqrstuvwxyz'
            return ''.join(letters[(letters.index(sign.lower()) + shift) % 26] for sign in text)
        """,
    ),
    _task(
        "common_prefix(words)",
        "It returns the longest beginning that all words have in common; '' where there is none, and for an "
        "empty list.",
        [
            ([["flower", "flow", "flight"]], "fl"),
            ([["a", "b"]], ""),
            ([[]], ""),
            ([["same", "same"]], "same"),
            ([["abc", "ab"]], "ab"),
        ],
        """
        def common_prefix(words):
            if not words:
                return ''
            first, last = min(words), max(words)
            for place, sign in enumerate(first):
                if sign != last[place]:
                    return first[:place]
            return first
        """,
        """
        def common_prefix(words):
            prefix = words[0]
            for word in words[1:]:
                while not word.startswith(prefix):
                    prefix = prefix[:-1]
            return prefix
        """,
        """
        def common_prefix(words):
            prefix = ''
            for letters in zip(*words):
                if len(set(letters)) == 1:
                    prefix += letters[0]
            return prefix
        """,
    ),
)
