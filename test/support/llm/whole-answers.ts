import { beforeAll, expect } from 'vitest'
import { thisSuite } from '../service/suite-owner.ts'
import { CHAT, HELLO, type LlmProxy, llmProxy } from './llm-proxy.ts'
import { scriptedLlm } from './scripted-llm.ts'

export const ASKED = { messages: HELLO, max_tokens: 500 }

/** A function that tells what an answer with a body costs. Each is for a caller of its own. */
export function costing(): (body: object | string) => Promise<number> {
  const suite = thisSuite()
  let answer: object | string
  let callers = 0
  let proxy: LlmProxy
  beforeAll(async () => {
    const backend = await scriptedLlm((call) => call.answer(200, answer), suite)
    proxy = await llmProxy(backend, { limitKeys: ['header:x-caller'] }, suite)
  })
  return async (body) => {
    answer = body
    const caller = [['X-Caller', String(callers++)]] as const
    const { status, body: passed } = await proxy.post(CHAT, ASKED, caller)
    expect([status, passed]).toEqual([200, typeof body === 'string' ? body : JSON.stringify(body)])
    const { minute, day } = await proxy.spent(caller)
    expect(minute).toBe(day)
    return day
  }
}

export const choice = (message: object) => ({ choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: 'stop' }] })
