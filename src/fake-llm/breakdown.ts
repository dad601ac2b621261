import { once } from 'node:events'
import type { FakeCall } from './call.ts'
import type { FakeLlmOptions } from './options.ts'

/** The message of failures that have one. */
export const FAILURE_MESSAGE = 'the fake LLM was told to fail'

/** Failures of the connection, without a message. */
type Breakdown = 'reset' | 'stall' | 'garbage'

export function breakdownOf({ fail }: FakeLlmOptions): Breakdown | undefined {
  return fail === 'reset' || fail === 'stall' || fail === 'garbage' ? fail : undefined
}

export async function breakDown(call: FakeCall, breakdown: Breakdown): Promise<void> {
  const { res, signal } = call
  if (signal.aborted) return
  if (breakdown === 'stall') {
    await once(signal, 'abort')
    return
  }
  call.isBreaking = true
  if (breakdown === 'reset') {
    res.socket!.resetAndDestroy()
    return
  }
  if (!res.headersSent) res.flushHeaders()
  // A chunk begins with its size in hexadecimal digits.
  res.socket!.write('this is no chunk\r\n')
  res.socket!.destroySoon()
}
