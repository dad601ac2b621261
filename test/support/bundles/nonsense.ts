import { join } from 'node:path'
import { expect } from 'vitest'
import type { Cli } from '../service/cli.ts'
import { ask } from '../service/http.ts'
import { scratchDirectory, serving } from '../service/running.ts'
import { until } from '../until.ts'
import { replaceFile } from './bundle-file.ts'
import { bucketRule, bundle, policy } from './bundles.ts'

const MEGABYTE = 1024 * 1024
const GOOD = JSON.stringify(bundle(1, policy('good', { rules: [bucketRule('all', [], 100, 0.001)] })))

export const NONSENSE: readonly (readonly [what: string, file: string, content: string | Buffer])[] = [
  ['a megabyte of one letter', 'bundle.json', 'x'.repeat(MEGABYTE)],
  ['a megabyte of noise', 'bundle.json', noise(MEGABYTE)],
  ['a megabyte of zero bytes', 'bundle.json', Buffer.alloc(MEGABYTE)],
  ['a megabyte of open brackets', 'bundle.json', '['.repeat(MEGABYTE)],
  ['half a million lists in one another', 'bundle.json', nested(MEGABYTE / 2)],
  ['half a million lists in one another, where policies belong', 'bundle.json', `{"bundle_version":2,"policies":${nested(MEGABYTE / 2)}}`],
  ['twenty thousand policies that are numbers', 'bundle.json', `{"bundle_version":2,"policies":[${'7,'.repeat(19_999)}7]}`],
  ['a megabyte of one letter', 'bundle.yaml', 'x'.repeat(MEGABYTE)],
  ['a megabyte of noise', 'bundle.yaml', noise(MEGABYTE)],
  ['a megabyte of zero bytes', 'bundle.yaml', Buffer.alloc(MEGABYTE)],
  ['a megabyte of closing brackets', 'bundle.yaml', '} ] '.repeat(MEGABYTE / 4)],
  ['a megabyte of commas in a list', 'bundle.yaml', `[${','.repeat(MEGABYTE)}]`],
  ['a megabyte of quotes', 'bundle.yaml', '"'.repeat(MEGABYTE)],
  ['a megabyte of tags', 'bundle.yaml', '!!x '.repeat(MEGABYTE / 4)],
  ['a megabyte of dashes', 'bundle.yaml', '- '.repeat(MEGABYTE / 2)],
  ['half a million lists in one another', 'bundle.yaml', nested(MEGABYTE / 2)],
  ['a thousand lists in one another on one line', 'bundle.yaml', `${'-  '.repeat(1000)}x`],
  ['a thousand lists in one another, with tabs', 'bundle.yaml', `${'-\t'.repeat(1000)}x`],
  ['a thousand lists in one another on a thousand lines', 'bundle.yaml', indented(1000, '-')],
  ['a thousand mappings in one another on a thousand lines', 'bundle.yaml', indented(1000, 'a:')],
  ['a thousand lists in one another, where policies belong', 'bundle.yaml', `bundle_version: 2\npolicies: ${nested(1000)}\n`],
]

/** A service refuses all nonsense in a file of this name, one after the other, and decides on. In a process of its own: what nonsense breaks must not be the one that watches. */
export async function expectNonsenseRefused(name: 'bundle.json' | 'bundle.yaml'): Promise<void> {
  const path = join(await scratchDirectory(), name)
  await replaceFile(path, GOOD)
  const cli = await serving({ EDGE_CONFIG_FILE: path })
  const refused = (): number => cli.log.filter(({ event }) => event === 'bundle_refused').length
  let remaining = 100
  for (const [, file, content] of NONSENSE) {
    if (file !== name) continue
    const before = refused()
    await replaceFile(path, content)
    await until(() => refused() > before || cli.process.exitCode !== null || cli.process.signalCode !== null)
    expect(await remainingAfterOne(cli)).toBe(--remaining)
  }
  expect(remaining).toBeLessThan(95)
  expect(cli.log.filter(({ event }) => event === 'bundle_applied')).toHaveLength(1)
  expect(Math.max(...cli.stderr.split('\n').map((line) => line.length))).toBeLessThan(50 * 500)
  const metrics = await ask(cli.port, 'GET', '/metrics')
  expect(metrics.body).toContain(`edge_bundle_reloads_total{result="refused"} ${100 - remaining}\n`)
}

async function remainingAfterOne(cli: Cli): Promise<number> {
  const fields = [
    ['X-Original-Method', 'GET'],
    ['X-Original-URI', '/'],
  ] as const
  const answer = await ask(cli.port, 'POST', '/v1/decision', fields)
  expect(answer.status).toBe(200)
  return Number(answer.headers['ratelimit-remaining'])
}

function nested(depth: number): string {
  return '['.repeat(depth) + ']'.repeat(depth)
}

function indented(lines: number, item: string): string {
  return `${Array.from({ length: lines }, (_, i) => ' '.repeat(i) + item).join('\n')} x`
}

/** Printable, the same each time, with no pattern to it. */
function noise(length: number): string {
  let state = 1
  const codes = Buffer.alloc(length)
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    codes[i] = 32 + ((state >>> 16) % 95)
  }
  return codes.toString('latin1')
}
