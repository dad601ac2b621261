import { expect, test } from 'vitest'
import { CHAT, fakeLlm, proxyEnv } from '../support/llm/llm-proxy.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'
import { codeBlocks, readText } from './markdown.ts'

test('the stream of docs/llm-budgets.md that runs into the end of its budget is cut where the page says', async () => {
  const [, section = ''] = /^## Reservations that grow$(.*?)^## /ms.exec(readText('docs/llm-budgets.md')) ?? []
  const text = codeBlocks(section, 'yaml').find((block) => block.startsWith('bundle_version'))!
  const [start, ask] = codeBlocks(section, 'sh') as [string, string]
  const tokens = Number(/--tokens (\d+)/.exec(start)![1])
  const body = /-d '([^']+)'/.exec(ask)![1]!
  const backend = await fakeLlm({ tokens })
  const edge = await running({
    bundle: text,
    fileName: 'limits.yaml',
    clock: new ManualClock(),
    env: { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend) },
  })
  const client = await new StreamClient(edge.port, CHAT, body, []).untilClosed()
  const [ending] = codeBlocks(section, '') as [string]
  expect(client.text.slice(-ending.length - 1)).toBe(`${ending}\n`)
  // The prose below it repeats the number.
  const { usage } = JSON.parse(ending.split('\n')[0]!.slice('data: '.length))
  expect(section).toContain(`was cut at ${usage.completion_tokens}`)
})
