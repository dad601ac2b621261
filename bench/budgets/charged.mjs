import { setTimeout as sleep } from 'node:timers/promises'
import { PROMPT_TOKENS } from './backends.mjs'
import { chat } from './chat-client.mjs'

/** A budget that nothing here uses up. */
export const AMPLE = 1_000_000
/** What a probe costs when it is settled: its prompt and one token. */
const PROBE_TOKENS = PROMPT_TOKENS + 1

/**
 * What a caller's budget was charged for `work`, as far as clients can see it: by the difference of what is left, which both say in a header. Some settle a while
 * after a response has ended, so it is asked for until two answers are the same.
 */
export async function chargedFor(caller, model, work) {
  const left = async () => {
    const response = await chat({ port: caller.ports[0], key: caller.key }, { model, maxTokens: 1 })
    if (response.status !== 200) throw new Error(`a probe got ${response.status}`)
    return caller.remaining(response)
  }
  const before = await left()
  await sleep(500)
  const result = await work()
  let charged
  for (let probes = 1; ; probes++) {
    await sleep(700)
    const next = before - (await left()) - probes * PROBE_TOKENS
    if (next === charged) return { result, charged }
    charged = next
  }
}
