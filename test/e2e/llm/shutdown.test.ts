import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../../src/config/config.ts'
import { Engine } from '../../../src/engine/engine.ts'
import type { ListenerServers } from '../../../src/listen/listener-servers.ts'
import { compileBundle } from '../../../src/policy/compile.ts'
import { parseBundle } from '../../../src/policy/parse.ts'
import { PlainRequestView } from '../../../src/request/view.ts'
import { loadServerCode } from '../../../src/runtime/server-code.ts'
import { newServers } from '../../../src/runtime/worker-servers.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream } from '../../support/llm/llm-streams.ts'
import { type ScriptedCall, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { portOf } from '../../support/service/port-of.ts'
import { serverMemory } from '../../support/service/server-memory.ts'
import { until } from '../../support/until.ts'

/** The counters outlive the sockets here, so that they can be read when nobody can be asked any more. */

const MINUTE_TOKENS = 5000
const DAY_TOKENS = 4000
const MAX = 500

interface Closing {
  readonly server: ListenerServers
  readonly port: number
  readonly client: StreamClient
  readonly call: ScriptedCall
  spent(): { minute: number; day: number }
}

/** A server with one stream on its way, of which two tokens have come. */
async function streaming(shutdownMs: number): Promise<Closing> {
  const backend = await scriptedLlm()
  const read = readConfig({ ...proxyEnv(backend), EDGE_SHUTDOWN_MS: String(shutdownMs), EDGE_ADMIN_PORT: '0' }, {})
  if (!read.ok) throw new Error(read.problems.join('\n'))
  const store = newEmbeddedStore(1024 * 1024)
  const clock = new ManualClock()
  const engine = new Engine({ store, clock })
  const rule = llmRule('budget', [], { tokens_per_minute: MINUTE_TOKENS, tokens_per_day: DAY_TOKENS })
  const parsed = parseBundle(JSON.stringify(bundle(1, policy('llm', { rules: [rule] }))))
  if (!parsed.ok) throw new Error('the bundle is invalid')
  engine.activate(compileBundle(parsed.bundle))
  const logger = pino({ level: 'silent' })
  const parts = { engine, clock, logger, bundle: () => undefined, storeStats: () => store.stats() }
  const server = newServers(read.config, await loadServerCode(read.config), { ...parts, ...serverMemory() })
  const port = portOf(await server.listen('main', { port: 0, host: '127.0.0.1' }))
  await server.listen('admin', { port: 0, host: '127.0.0.1' })
  onTestFinished(() => server.close())

  const client = new StreamClient(port, CHAT, JSON.stringify({ stream: true, messages: HELLO, max_tokens: MAX }))
  const call = await backend.next()
  call.begin()
  await call.write(chatChunk({ content: 'abcdefgh' }))
  await client.untilText('abcdefgh')

  const available = (size: number): number => {
    const view = new PlainRequestView({ method: 'POST', uri: '/v1/embeddings' })
    const decision = engine.decide(view, {
      body: { promptTokens: size + 1, requestedTokens: undefined, choices: 1, isStream: false, model: undefined },
    })
    if (decision instanceof Promise || decision.action !== 'reject') throw new Error('the probe was allowed')
    return decision.available
  }
  const spent = () => ({ minute: MINUTE_TOKENS - available(MINUTE_TOKENS), day: DAY_TOKENS - available(DAY_TOKENS) })
  expect(spent()).toEqual({ minute: HELLO_TOKENS + MAX, day: HELLO_TOKENS + MAX })
  return { server, port, client, call, spent }
}

test('a stream that a shutdown cuts is settled like one whose client went away, and its backend call ends', async () => {
  const { server, client, call, spent } = await streaming(0)
  await server.close()
  await client.untilClosed()
  await until(() => call.isAborted && spent().day < HELLO_TOKENS + MAX)
  expect([client.outcome, spent()]).toEqual(['broken', { minute: HELLO_TOKENS + 2, day: HELLO_TOKENS + 2 }])
})

test('a stream that ends while the service waits for it is whole, and settled', async () => {
  const { server, port, client, call, spent } = await streaming(600_000)
  const closed = server.close()
  await until(async () => (await ask(port, 'GET', '/').catch(() => undefined)) === undefined)
  expect(client.outcome).toBe('open')
  call.end(chatStream(['ijkl']))
  await client.untilClosed()
  await closed
  expect(client.outcome).toBe('whole')
  expect(client.events.at(-1)).toEqual({ data: '[DONE]' })
  expect(spent()).toEqual({ minute: HELLO_TOKENS + 3, day: HELLO_TOKENS + 3 })
})
