import { describe, expect, test } from 'vitest'
import type { BodyFacts, BodyNeed } from '../engine/decide-options.ts'
import type { Reason } from '../engine/reasons.ts'
import { type DecisionSteps, decideInSteps, type ReadCost } from './decide-in-steps.ts'
import { type DecisionAnswer, refusedAnswer } from './decision-answer.ts'

const FACTS = { promptTokens: 1, requestedTokens: 2, choices: 1, isStream: false, model: undefined }
const MAX_BODY_BYTES = 10
/** Answers are told apart by identity. */
const DECIDED = refusedAnswer('internal_error')
const REJECTED = refusedAnswer('internal_error')
const BROKEN = refusedAnswer('internal_error')

describe('a decision in steps', () => {
  test('reads no body that no rule needs, and is there at once', () => {
    const { asked, decide } = scene({ need: 'no' })
    expect(decide(MAX_BODY_BYTES + 1)).toBe(DECIDED)
    expect(asked).toEqual(['identify', 'needsBody', 'decide'])
  })

  test('ends with its first step where that fails', () => {
    const { asked, decide } = scene({ need: BROKEN })
    expect(decide(1)).toBe(BROKEN)
    expect(asked).toEqual(['identify', 'needsBody'])
  })

  test('asks nothing more about a body that its head says is too large, where a rule enforces', () => {
    const { asked, decide } = scene({ need: 'must' })
    expect(decide(MAX_BODY_BYTES + 1)).toEqual(refusedAnswer('body_too_large'))
    expect(asked).toEqual(['identify', 'needsBody', 'refuse body_too_large'])
  })

  test.each([false, true])('reads no body of a request that the head alone rejects (a slow store: %s)', async (isLater) => {
    const { asked, decide } = scene({ need: 'must', rejection: isLater ? Promise.resolve(REJECTED) : REJECTED })
    const answer = decide(1)
    expect(answer instanceof Promise).toBe(isLater)
    expect(await answer).toBe(REJECTED)
    expect(asked).toEqual(['identify', 'needsBody', 'precheck'])
  })

  test.each([undefined, Promise.resolve(undefined)])('decides with what the body says', async (rejection) => {
    const { asked, decide } = scene({ need: 'must', rejection, cost: FACTS })
    expect(await decide(undefined)).toBe(DECIDED)
    expect(asked).toEqual(['identify', 'needsBody', 'precheck', 'read true', ['decideWithBody', FACTS]])
  })

  test.each<Reason>(['bad_request', 'repeated_descriptor', 'body_memory_exhausted'])(
    'is refused for a body that cannot be read (%s) only where a rule enforces',
    async (cost) => {
      const enforced = scene({ need: 'must', cost })
      expect(await enforced.decide(1)).toEqual(refusedAnswer(cost))
      expect(enforced.asked).toEqual(['identify', 'needsBody', 'precheck', 'read true', `refuse ${cost}`])
      const inShadow = scene({ need: 'may', cost })
      expect(await inShadow.decide(MAX_BODY_BYTES + 1)).toBe(DECIDED)
      const facts = cost === 'repeated_descriptor' ? cost : undefined
      expect(inShadow.asked).toEqual(['identify', 'needsBody', 'precheck', 'read false', ['decideWithBody', facts]])
    },
  )

  test('takes nothing for a client that is gone', async () => {
    const { asked, decide } = scene({ need: 'must', cost: 'gone' })
    expect(await decide(1)).toBeUndefined()
    expect(asked).toEqual(['identify', 'needsBody', 'precheck', 'read true'])
  })
})

interface SceneOptions {
  readonly known?: ReturnType<DecisionSteps['identify']>
  readonly need: BodyNeed | DecisionAnswer
  readonly rejection?: ReturnType<DecisionSteps['precheck']>
  readonly cost?: ReadCost
}

function scene({ known, need, rejection, cost = FACTS }: SceneOptions) {
  const asked: unknown[] = []
  const note = <Value>(step: unknown, value: Value): Value => {
    asked.push(step)
    return value
  }
  const steps: DecisionSteps = {
    identify: () => note('identify', known),
    routeNeedsBody: () => false,
    route: () => undefined,
    isRouted: false,
    needsBody: () => note('needsBody', need),
    precheck: () => note('precheck', rejection),
    decide: () => note('decide', DECIDED),
    decideWithBody: (body: BodyFacts) => note(['decideWithBody', body], DECIDED),
    refuse: (reason) => note(`refuse ${reason}`, refusedAnswer(reason)),
  }
  const read = async (isEnforced: boolean): Promise<ReadCost> => note(`read ${isEnforced}`, cost)
  return { asked, decide: (contentLength: number | undefined) => decideInSteps(steps, { contentLength, read }, MAX_BODY_BYTES) }
}
