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
    expectSameResult(sent, own![i]!, node![i]!)
  })
  const sent = talks.map(({ steps }) => steps.map(({ pieces }) => pieces))
  expect({ sent, ...comparableEffects(ownEffects!, nodeEffects!) }).toEqual({ sent, ...comparableEffects(nodeEffects!, ownEffects!) })
  return { results: own!, effects: ownEffects! }
}

/** That two clients who said the same heard the same. */
export function expectSameResult(sent: unknown, one: TalkResult, other: TalkResult): void {
  expect({ sent, ...comparableResult(one, other) }).toEqual({ sent, ...comparableResult(other, one) })
}

/** What must be the same on the other side: not what depends on when bytes came. */
function comparableResult(result: TalkResult, other: TalkResult): TalkResult {
  const answers = result.answers.map((answer, i) => (isOtherMistake(answer, other.answers[i]) ? other.answers[i]! : answer))
  if (!mayHaveLost([result, other])) return { ...result, answers }
  return { answers: answers.slice(0, other.answers.length), rest: '', closing: 'reset' }
}

/**
 * What comes behind the last answer of a connection resets it, unless it comes in time to be read. A client that writes at that moment loses what it
 * had not read yet.
 */
function mayHaveLost(results: readonly TalkResult[]): boolean {
  const isReset = ({ closing }: TalkResult): boolean => closing === 'reset'
  return results.some(isReset) && results.every((result) => isReset(result) || IS_LAST.test(result.answers.at(-1) ?? ''))
}

/** Where head and body are both malformed, it depends on when the body comes which of them is refused. */
function isOtherMistake(answer: string, other: string | undefined): boolean {
  return other !== undefined && answer !== other && [answer, other].every((text) => REFUSED.test(text)) && MALFORMED.test(answer)
}

const IS_LAST = /^Connection: close\r$/m
const REFUSED = /^HTTP\/1\.1 400 [\s\S]*"code":"bad_request"/
const MALFORMED = /"message":"the request is malformed"/

/**
 * What must be the same on the other side. A request that its client broke off, or that was answered before it had come whole, may or may not
 * have reached the backend, and not all of it need have.
 */
function comparableEffects({ requests, rubbish, counts }: Effects, other: Effects): object {
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
