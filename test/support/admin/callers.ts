import { expect } from 'vitest'
import type { CallersJson, CallersRequest } from '../../../src/admin/api/caller-types.ts'
import type { Edge } from '../service/edge.ts'
import { askAdmin } from './admin-client.ts'

/** What POST callers responds. */
export async function callers(edge: Pick<Edge, 'adminPort'>, body: CallersRequest): Promise<CallersJson> {
  const { status, json } = await askAdmin(edge.adminPort, 'POST', 'callers', { body })
  expect({ status, error: json.error }).toEqual({ status: 200, error: undefined })
  return json
}

/** `policy/rule`, of each. */
export function names(rules: readonly { readonly policy: string; readonly rule: string }[]): string[] {
  return rules.map(({ policy, rule }) => `${policy}/${rule}`)
}
