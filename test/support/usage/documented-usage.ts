import { join } from 'node:path'
import { expect } from 'vitest'
import type { FakeLlm } from '../../../src/fake-llm/server.ts'
import { codeBlocks, readText } from '../../docs/markdown.ts'
import { writeKeyFile } from '../keys/key-file.ts'
import { sampleKey } from '../keys/sample-keys.ts'
import { CHAT, fakeLlm } from '../llm/llm-proxy.ts'
import type { Fields } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { scratchDirectory } from '../service/running.ts'
import { type UsageProxy, usageProxy } from './usage-proxy.ts'

export const USAGE_PAGE = readText('docs/usage.md')
/** Where the page has its files. */
export const SHOWN_DIRECTORY = '/var/lib/edge/usage'

/** What the page's two teams ask for in November: so many requests, the first with a prompt of so many tokens, each next one with as many more. */
const MONTH = [
  { team: 'search', model: 'gpt-4o', requests: 12, promptTokens: 400 },
  { team: 'support', model: 'gpt-4o', requests: 5, promptTokens: 300 },
  { team: 'search', model: 'gpt-4o-mini', requests: 40, promptTokens: 50 },
]

export interface DocumentedUsage {
  readonly proxy: UsageProxy
  /** The header fields of a team's requests. */
  fieldsOf(team: string): Fields
}

/** The edge with the bundle of docs/usage.md and a key for each of its teams, on a morning in November. */
export async function documentedUsage(backend: { readonly port: number }, more = ''): Promise<DocumentedUsage> {
  const [search, support] = ['search', 'support'].map((team) => sampleKey({ labels: { team } })) as [SampleKey, SampleKey]
  const keys = join(await scratchDirectory(), 'keys')
  await writeKeyFile(keys, [search.key, support.key])
  const clock = new ManualClock()
  clock.advance(Date.UTC(2026, 10, 18, 10, 31, 5, 102) - clock.wallMs())
  const bundle = `${codeBlocks(USAGE_PAGE, 'yaml')[0]}${more}`
  const proxy = await usageProxy(backend, { bundle, clock, env: { EDGE_KEYS_FILE: keys }, service: { fileName: 'bundle.yaml' } })
  return { proxy, fieldsOf: (team) => [['Authorization', `Bearer ${team === 'search' ? search.text : support.text}`]] }
}

type SampleKey = ReturnType<typeof sampleKey>

/** The requests of the page's report. Returns how many there were. */
export async function playMonth({ proxy, fieldsOf }: DocumentedUsage): Promise<number> {
  for (const { team, model, requests, promptTokens } of MONTH) {
    for (let i = 1; i <= requests; i++) {
      const messages = [{ role: 'user', content: 'word'.repeat(promptTokens * i) }]
      const { status, body } = await proxy.post(CHAT, { model, messages, max_tokens: 1000 }, fieldsOf(team))
      expect(status, body).toBe(200)
    }
  }
  return MONTH.reduce((sum, { requests }) => sum + requests, 0)
}

/** The provider that the page's report is about. */
export function documentedLlm(): Promise<FakeLlm> {
  return fakeLlm({ tokens: 164, cachedTokens: 512 })
}
