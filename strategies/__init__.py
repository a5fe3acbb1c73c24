"""What to try: cases as pure data, and the Hypothesis strategies that draw them.

Knows neither torch nor any device. From the floor below it uses only the words of `backends.contract`.
"""
