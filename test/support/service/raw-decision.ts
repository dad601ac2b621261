import type { TestContext } from 'vitest'
import { RawClient, valuesOf } from '../proxy/proxy.ts'
import type { Edge } from './edge.ts'
import type { Fields } from './http.ts'
import { decisionBytes, original } from './wire.ts'

/** A connection that is to be closed is for the slow wire. */
export const WIRES = [
  ['the fast wire', false],
  ['the slow wire', true],
] as const

export interface Told {
  readonly status: number
  readonly reason: string | undefined
  readonly remaining: string | undefined
}

/** Asks on a connection of its own. */
export async function decideRaw(t: TestContext, edge: Edge, uri: string, fields: Fields, isLast: boolean): Promise<Told> {
  const client = RawClient.connect(edge.port, t)
  client.send(decisionBytes(original(uri, ...fields), { isLast }))
  const answer = await client.next()
  return { status: answer.status, reason: valuesOf(answer, 'x-edge-reason')[0], remaining: valuesOf(answer, 'ratelimit-remaining')[0] }
}
