"""Language models: Llama and Qwen checkpoints and GGUF files.

    from zellige.model import Model, Tokenizer, generate

    model, tokenizer = Model("Qwen3-0.6B"), Tokenizer("Qwen3-0.6B")
    prompt = tokenizer.chat([{"role": "user", "content": "What is the capital of France?"}])
    for text in generate(model, tokenizer, prompt, max_tokens=64, temperature=0.6, top_p=0.95):
        print(text, end="", flush=True)

A Model computes logits, which are arrays of zellige.core, and starts Sequences, which draw ids.
"""

import json

from .core import _language

Model = _language.Model
Sequence = _language.Sequence
Reader = _language.Reader
quantize = _language.quantize

__all__ = ["Model", "Reader", "Sequence", "Tokenizer", "generate", "quantize"]


class Tokenizer(_language.Tokenizer):
    """Tokenizer(path): that of a model's folder or GGUF file. len() is the number of its ids."""

    __slots__ = ()

    def decode(self, ids, special=False):
        """The text of some ids; special: with special tokens."""
        reader = self.reader(special)
        return "".join([reader.read(i) for i in ids]) + reader.end()

    def chat(self, messages, **variables):
        """Messages, dicts with role and content, as the model's chat template writes them; variables such as tools or
        enable_thinking are the template's."""
        return self.render(json.dumps({**variables, "messages": messages}, ensure_ascii=False))


def generate(model, tokenizer, prompt, *, max_tokens=256, **options):
    """Yields the text that follows a prompt, a str or ids, piece by piece until the model ends it; options as of Model.start."""
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    ends, reader = set(model.about["eos"]), tokenizer.reader()
    sequence = model.start(ids, **options)
    for _ in range(max_tokens):
        token, _ = next(sequence)
        if token in ends:
            break
        if token < len(tokenizer) and (text := reader.read(token)):  # ids behind those only pad the vocabulary
            yield text
    if text := reader.end():
        yield text
