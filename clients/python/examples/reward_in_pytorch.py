"""Learn from rewards in a plain PyTorch loop: REINFORCE, with a validation curve that never makes it wait.

REFAUG_URL=http://127.0.0.1:8000 python reward_in_pytorch.py

The model of this example learns which of a few replies to give to which utterance; yours generates them. A reply that
has no reward, since the server did not answer, is NaN, and left out of the loss.
"""

from __future__ import annotations

import torch

from refaug_client import Client

SAID = {"tea": "would you like some tea ?", "bus": "when does the bus leave ?", "dog": "whose dog is that ?"}
REPLIED = {"tea": "yes please", "bus": "in ten minutes", "dog": "it is mine"}
REPLIES = [*REPLIED.values(), "i do not know"]
ITEMS = [
    {
        "id": item_id,
        "utterance": SAID[item_id],
        "references": [REPLIED[item_id], {"text": "i do not know", "weight": -0.5}],
    }
    for item_id in SAID
]


def main(steps: int = 60, each: int = 16) -> None:
    torch.manual_seed(1)
    table = torch.zeros(len(SAID), len(REPLIES), requires_grad=True)
    optimizer = torch.optim.SGD([table], lr=2.0)
    with Client() as refaug:
        train = refaug.sets.freeze(ITEMS, purpose="train", references="given")
        validation = refaug.sets.freeze(ITEMS, purpose="validation", references="given")
        reward = refaug.reward(reference_set=train.id, metric="delta-bleu", on_unavailable="mask")
        curve = refaug.scorer(reference_set=validation.id, metric="delta-bleu", on_unavailable="skip")
        with reward, curve:
            for step in range(1, steps + 1):
                rows = torch.arange(len(SAID)).repeat_interleave(each)
                policy = torch.distributions.Categorical(logits=table[rows])
                drawn = policy.sample()
                items = [list(SAID)[row] for row in rows]
                rewards = torch.tensor(reward([REPLIES[choice] for choice in drawn], items=items))
                scored = ~rewards.isnan()
                advantages = rewards - rewards[scored].mean()
                loss = -(advantages * policy.log_prob(drawn))[scored].sum() / max(int(scored.sum()), 1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 20 == 0:
                    best = [REPLIES[choice] for choice in table.argmax(-1)]
                    curve.submit(best, items=list(SAID), tag=step)  # returns at once
            for pending in curve.drain(timeout_s=60):
                scores = [score for score in pending.result() if score is not None]
                print(f"step {pending.tag}: mean {sum(scores) / len(scores):.4f} of {len(scores)}")
            print(reward.counts)
            print(reward.signature)


if __name__ == "__main__":
    main()
