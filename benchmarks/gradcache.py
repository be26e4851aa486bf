"""One training step of a batch whole, in parts that GradCache encodes, and of a batch that is one such part.

    python -m benchmarks.gradcache [BATCH] [MICRO_BATCH] [REPEATS]

A BERT of six blocks in MiniLM's sizes, with random weights and dropout; 64 tokens a text, two passes of each (the view
two_stage), NT-Xent over the batch. A process has the memory of its tensors and what glibc keeps of earlier ones; that
of tensors is measured apart, with each given back to the system once it is free. `512 16 1` takes 14 GiB and minutes.
"""

import statistics

from benchmarks.turns import Run, ratios, start, take_turns, timed

LENGTH, VOCABULARY = 64, 4000
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # above so many bytes; costs time


def measure(variant: str, batch_size: int, micro_batch: int) -> Run:
    import torch
    from torch import nn

    from contrastive.config.cell import Encoder, Scratch
    from contrastive.losses.ntxent import ntxent
    from contrastive.models import encoder as encoders
    from contrastive.training import gradcache
    from contrastive.views.batches import Batch
    from contrastive.views.two_stage import two_stage
    from contrastive.views.types import Output

    torch.manual_seed(0)
    sizes = Scratch(layers=6, hidden=384, heads=12, vocabulary=VOCABULARY)
    backbone = encoders.load_encoder(Encoder(model="scratch:bert", scratch=sizes), VOCABULARY, pad_id=0).train()
    dropout = nn.Dropout(0.1)
    texts = micro_batch if variant == "a batch of one part" else batch_size
    ids = torch.randint(5, VOCABULARY, (texts, LENGTH))
    mask, special = torch.ones_like(ids).bool(), torch.zeros_like(ids).bool()
    special[:, 0] = special[:, -1] = True

    def model(batch: Batch) -> Output:
        view = two_stage(lambda given: encoders.encode(backbone, given, "cls", dropout), batch)
        return Output(view.groups, view.sentences, None)

    def step() -> None:
        batch = Batch(ids, mask, special, torch.zeros(texts, dtype=torch.long))
        encoded = gradcache.encode_in_parts(model, batch, micro_batch if variant == "in parts" else None)
        ntxent(encoded.output.groups[0].vectors).backward()
        encoded.finish()

    return timed(step)


def main(batch_size: int = 128, micro_batch: int = 16, repeats: int = 3) -> None:
    variants = ("a batch of one part", "in parts", "whole")
    asked = "benchmarks.gradcache", variants, [batch_size, micro_batch]
    tensors, found = take_turns(*asked, 1, GIVEN_BACK), take_turns(*asked, repeats)
    part, whole = variants[0], variants[-1]
    print(
        f"batch {batch_size}, parts of {micro_batch}, {repeats} runs each; time to that of the whole batch, memory to "
        "that of a batch of one part, of the same turn"
    )
    for variant, runs in found.items():
        times, memory = ratios(runs, found[whole], "seconds"), ratios(runs, found[part], "mib")
        (alive,) = ratios(tensors[variant], tensors[part], "mib")
        print(
            f"{variant:20} {statistics.median(r['seconds'] for r in runs):6.2f} s  × {statistics.median(times):.3f} "
            f"({min(times):.3f} to {max(times):.3f})   tensors {tensors[variant][0]['mib']:6.0f} MiB  × {alive:.2f}   "
            f"process {statistics.median(r['mib'] for r in runs):6.0f} MiB  × {statistics.median(memory):.2f} "
            f"({min(memory):.2f} to {max(memory):.2f})"
        )


if __name__ == "__main__":
    start(main, measure)
