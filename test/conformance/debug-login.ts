import type { Edge } from '../support/service/edge.ts'
import type { Answer } from '../support/service/http.ts'

export const SECRET = 'kX3-vq9T_long-and-random'
export const SECRET_ENV = { EDGE_DEBUG_SESSION_SECRET: SECRET }

export interface DebugCookie {
  /** `edge_dbg=…`, as a caller sends it back. */
  readonly pair: string
  readonly value: string
  readonly attributes: readonly string[]
}

/** Opens a debug session and answers the cookie that it set. */
export async function logIn(edge: Edge): Promise<DebugCookie> {
  const answer = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])
  return readCookie(answer)
}

export function readCookie(answer: Answer): DebugCookie {
  const [pair, ...attributes] = (answer.headers['set-cookie'] ?? '').split('; ')
  return { pair: pair!, value: pair!.slice('edge_dbg='.length), attributes }
}

/** The debug headers of an answer, by what follows `X-Edge-Debug-` in lower case. */
export function debugFacts(answer: Answer): Record<string, string> {
  const prefix = 'x-edge-debug-'
  const own = Object.entries(answer.headers).filter(([name]) => name.startsWith(prefix))
  return Object.fromEntries(own.map(([name, value]) => [name.slice(prefix.length), value]))
}
