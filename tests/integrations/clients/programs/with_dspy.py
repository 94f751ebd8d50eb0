# mypy: ignore-errors
"""DSPy: a predictor, streamed."""

import asyncio

import dspy
from told import KEY, MODEL, QUESTION, V1, say


async def main():
    dspy.configure(lm=dspy.LM(f"openai/{MODEL}", api_base=V1, api_key=KEY, cache=False))
    predict = dspy.streamify(dspy.Predict("question -> answer"))
    answer = None
    async for piece in predict(question=QUESTION):
        answer = piece
    say(answer.answer)


asyncio.run(main())
