import { ApiError } from '../../admin/api/api-error.ts'
import type { CallResult } from './control-calls.ts'

/** Calls a handler, and turns what comes of it into something that gets to another thread. Never rejects. */
export async function resultOf(handle: () => unknown): Promise<CallResult> {
  try {
    return { ok: true, answer: await handle() }
  } catch (error) {
    return { ok: false, code: error instanceof ApiError ? error.code : undefined, message: (error as Error).message }
  }
}

/** The answer, or throws what the handler threw. */
export function resultAnswer(result: CallResult): unknown {
  if (result.ok) return result.answer
  throw result.code === undefined ? new Error(result.message) : new ApiError(result.code, result.message)
}
