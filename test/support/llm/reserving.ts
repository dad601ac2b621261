import { beforeAll, expect } from 'vitest'
import { thisSuite } from '../service/suite-owner.ts'
import { both, type LlmProxy, llmProxy } from './llm-proxy.ts'
import { type ScriptedLlm, scriptedLlm } from './scripted-llm.ts'

export const MAX_COMPLETION = 100

/**
 * A function that tells what the request of a new caller holds while it waits for its answer; with `max_completion_tokens` or without.
 * An answer of status 500 then gives it all back.
 */
export function reserving(): (path: string, body: object | string, isBounded?: boolean) => Promise<number> {
  const suite = thisSuite()
  let backend: ScriptedLlm
  let bounded: LlmProxy
  let unbounded: LlmProxy
  let callers = 0
  beforeAll(async () => {
    backend = await scriptedLlm(undefined, suite)
    const limitKeys = ['header:x-caller']
    bounded = await llmProxy(backend, { limitKeys, config: { max_completion_tokens: MAX_COMPLETION } }, suite)
    unbounded = await llmProxy(backend, { limitKeys }, suite)
  })
  return async (path, body, isBounded = true) => {
    const proxy = isBounded ? bounded : unbounded
    const caller = [['X-Caller', String(callers++)]] as const
    const answered = proxy.post(path, body, caller)
    const call = await backend.next()
    const { minute, day } = await proxy.held(caller)
    expect(minute).toBe(day)
    call.answer(500, { error: { message: 'no' } })
    await answered
    expect(await proxy.spent(caller)).toEqual(both(0))
    return day
  }
}
