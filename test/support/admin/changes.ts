import { expect } from 'vitest'
import type { Edge } from '../service/edge.ts'
import { askAdmin } from './admin-client.ts'

/** The changes that an instance lists. */
export async function changesOf(edge: Edge, query = ''): Promise<Record<string, unknown>[]> {
  const { status, json } = await askAdmin(edge.adminPort, 'GET', `changes${query}`)
  expect(status).toBe(200)
  return json.changes
}

/** Asks for a change, which must succeed; returns the id of what it made. */
export async function change(edge: Edge, method: string, path: string, body?: object, actor = 'ada'): Promise<string> {
  const { status, json } = await askAdmin(edge.adminPort, method, path, { body, actor })
  expect(status, JSON.stringify(json)).toBeLessThan(300)
  return json?.id
}
