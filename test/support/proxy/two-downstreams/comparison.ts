import { expect } from 'vitest'
import { type DownstreamPair, type Effects, effectsOf } from './downstream-pair.ts'
import type { RecordedRequest } from './recording-backend.ts'
import { converse, type Talk, type TalkResult } from './talk.ts'

/** What became of some talks, the same on both sides. */
export interface SameOutcome {
  readonly results: readonly TalkResult[]
  readonly effects: Effects
}

/** Has these talks with both sides, and compares all that can be seen of them. */
export async function expectSame(pair: DownstreamPair, talks: readonly Talk[]): Promise<SameOutcome> {
  const [own, node] = await Promise.all(pair.sides.map(({ edge }) => Promise.all(talks.map((talk) => converse(edge.port, talk)))))
  const [ownEffects, nodeEffects] = await Promise.all(pair.sides.map(effectsOf))
  talks.forEach(({ steps }, i) => {
    const sent = steps.map(({ pieces }) => pieces)
    expect({ sent, ...own![i]! }).toEqual({ sent, ...node![i]! })
  })
  const sent = talks.map(({ steps }) => steps.map(({ pieces }) => pieces))
  expect({ sent, ...comparable(ownEffects!, nodeEffects!) }).toEqual({ sent, ...comparable(nodeEffects!, ownEffects!) })
  return { results: own!, effects: ownEffects! }
}

/**
 * What must be the same on the other side. A request that its client broke off, or that was answered before it had come whole, may or may not
 * have reached the backend, and not all of it need have.
 */
function comparable({ requests, rubbish, counts }: Effects, other: Effects): object {
  const others = new Set(other.requests.map(({ head }) => head))
  const whole = requests.filter((request) => !isPartial(request) || !others.has(request.head))
  return {
    requests: whole
      .filter(({ isCut }) => !isCut)
      .map(textOf)
      .sort(),
    rubbish,
    counts,
  }
}

function isPartial({ head, isCut }: RecordedRequest): boolean {
  return isCut || /^x-answer: early/im.test(head)
}

function textOf({ head, body, trailers }: RecordedRequest): string {
  return `${head}${body}${trailers}`
}
