import { expect, test } from 'vitest'
import { until } from '../until.ts'
import { both, CHAT, HELLO, HELLO_TOKENS, llmProxy } from './llm-proxy.ts'
import { chatChunk, sse } from './llm-streams.ts'
import { scriptedLlm } from './scripted-llm.ts'

const EVENTS = 12
const MAX = 20

export function manyStreamsSuite(streams: number, env: Readonly<Record<string, string>> = {}): void {
  test(`${streams} streams at once complete with none lost`, async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, { minuteTokens: 100_000, dayTokens: 40_000, env })
    const body = { stream: true, messages: HELLO, max_tokens: MAX }
    const clients = Array.from({ length: streams }, () => proxy.open(CHAT, body))
    // One that is rejected would be waited for in vain.
    const closed = () => clients.filter(({ outcome }) => outcome !== 'open')
    await until(() => backend.calls.length === streams || closed().length > 0)
    expect(closed().map(({ status, text }) => [status, text])).toEqual([])
    for (const call of backend.calls) call.begin()
    await Promise.all(clients.map((client) => client.untilHead()))
    expect(await proxy.edge.metric('edge_llm_open_streams')).toBe(streams)
    expect(await proxy.held()).toEqual(both(streams * (HELLO_TOKENS + MAX)))

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
    expect(voices.size).toBe(streams)
    expect(await proxy.spent()).toEqual(both(streams * (HELLO_TOKENS + EVENTS)))
    expect(await proxy.settlements()).toEqual({ done: streams })
  }, 300_000)
}
