import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { until } from '../until.ts'
import type { Edge } from './edge.ts'
import { running, scratchDirectory } from './running.ts'

export const LIMITS = bundle(
  1,
  policy('api', { rules: [bucketRule('per-key', ['header:x-api-key'], 2, 0.001), bucketRule('user', ['bearer'], 9)] }),
)

export type Line = Record<string, unknown> & { readonly headers?: Record<string, unknown> }

export async function linesOf(path: string): Promise<Line[]> {
  const text = await readFile(path, 'utf8')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)
}

/** The service with a log of this name, which is written when there are so many lines. */
export async function logging(
  options: Parameters<typeof running>[0] = {},
): Promise<{ edge: Edge; path: string; lines(count: number): Promise<Line[]> }> {
  const path = join(await scratchDirectory(), 'decisions.log')
  const edge = await running({ bundle: LIMITS, ...options, env: { EDGE_DECISION_LOG: path, ...options.env } })
  return { edge, path, lines: (count) => written(path, count) }
}

export async function written(path: string, count: number): Promise<Line[]> {
  let lines: Line[] = []
  await until(async () => {
    lines = await linesOf(path)
    return lines.length >= count
  })
  expect(lines).toHaveLength(count)
  return lines
}
