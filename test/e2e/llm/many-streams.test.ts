import { expect, test } from 'vitest'
import { both, CHAT, HELLO, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatChunk, sse } from '../../support/llm/llm-streams.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { until } from '../../support/until.ts'

const STREAMS = 1000
const EVENTS = 12
const MAX = 20

test('a thousand streams at once complete with none lost', async () => {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend, { minuteTokens: 100_000, dayTokens: 40_000 })
  const body = { stream: true, messages: HELLO, max_tokens: MAX }
  const clients = Array.from({ length: STREAMS }, () => proxy.open(CHAT, body))
  await until(() => backend.calls.length === STREAMS)
  for (const call of backend.calls) call.begin()
  await Promise.all(clients.map((client) => client.untilHead()))
  expect(await proxy.edge.metric('edge_llm_open_streams')).toBe(STREAMS)
  expect(await proxy.held()).toEqual(both(STREAMS * (HELLO_TOKENS + MAX)))

  // All of them speak in turns, each for itself.
  for (let event = 0; event < EVENTS; event++) {
    await Promise.all(backend.calls.map((call, i) => call.write(chatChunk({ content: `${String(i).padStart(3, '0')}.` }))))
  }
  for (const call of backend.calls) call.end(chatChunk({}, 'stop') + sse('[DONE]'))
  await Promise.all(clients.map((client) => client.untilClosed()))

  const voices = new Set<string>()
  for (const client of clients) {
    expect([client.outcome, client.events.length, client.events.at(-1)]).toEqual(['whole', EVENTS + 2, { data: '[DONE]' }])
    const said = (client.data.slice(0, EVENTS) as { choices: { delta: { content: string } }[] }[]).map(
      ({ choices }) => choices[0]!.delta.content,
    )
    expect(new Set(said).size).toBe(1)
    voices.add(said[0]!)
  }
  expect(voices.size).toBe(STREAMS)
  expect(await proxy.spent()).toEqual(both(STREAMS * (HELLO_TOKENS + EVENTS)))
  expect(await proxy.settlements()).toEqual({ done: STREAMS })
}, 60_000)
