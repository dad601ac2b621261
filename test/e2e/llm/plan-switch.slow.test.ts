import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../../src/config/config.ts'
import { PlanSwitch } from '../../../src/engine/active-plan.ts'
import { Engine } from '../../../src/engine/engine.ts'
import { compileBundle } from '../../../src/policy/compile.ts'
import { parseBundle } from '../../../src/policy/parse.ts'
import type { Plan } from '../../../src/policy/plan.ts'
import { PlainRequestView } from '../../../src/request/view.ts'
import { loadServerCode } from '../../../src/runtime/server-code.ts'
import { newServers } from '../../../src/runtime/worker-servers.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { bucketRule, bundle, llmRule, type PolicyText, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { portOf } from '../../support/service/port-of.ts'
import { serverMemory } from '../../support/service/server-memory.ts'

const TOKENS = 5000
const BUDGET = policy('llm', { rules: [llmRule('budget', [], { tokens_per_minute: TOKENS })] })
const PLAIN = policy('plain', { rules: [bucketRule('r', [], 100)] })
/** More moments than a request looks at the clock. */
const MOMENTS = 12

/** Another thread turns the word at any time; here it is turned when the proxy looks at the clock for the n-th time. */
test.each([
  ['brings a token budget', [PLAIN], [PLAIN, BUDGET], 0],
  ['takes one away', [PLAIN, BUDGET], [PLAIN], 7],
])('a bundle that %s while a request is decided leaves no reservation that nobody settles', async (_what, before, after, expected) => {
  const spent: number[] = []
  for (let moment = 1; moment <= MOMENTS; moment++) spent.push(await spentWhenTurned(before, after, moment))
  // The backend says that it used 7. A request that came before the budget did costs nothing.
  expect(new Set(spent)).toEqual(new Set([expected]))
})

async function spentWhenTurned(before: readonly PolicyText[], after: readonly PolicyText[], moment: number): Promise<number> {
  const backend = await HttpBackend.start((_req, res) => {
    res.setHeader('Content-Type', 'application/json')
    res.end('{"usage":{"prompt_tokens":3,"completion_tokens":4}}')
  })
  const read = readConfig({ ...proxyEnv(backend), EDGE_SHUTDOWN_MS: '0', EDGE_ADMIN_PORT: '0' }, {})
  if (!read.ok) throw new Error(read.problems.join('\n'))
  const planSwitch = new PlanSwitch()
  const clock = new TurningClock(planSwitch)
  const store = newEmbeddedStore(1024 * 1024)
  const engine = new Engine({ store, clock, planSwitch })
  engine.activate(planOf(before))
  const next = planOf(after)
  for (const _step of engine.prepare(2, next, new Float64Array(next.counters.length)));
  const parts = { engine, clock, logger: pino({ level: 'silent' }), bundle: () => undefined, storeStats: () => store.stats() }
  const server = newServers(read.config, await loadServerCode(read.config), { ...parts, ...serverMemory() })
  const port = portOf(await server.listen('main', { port: 0, host: '127.0.0.1' }))
  const close = closedOnce(() => server.close())
  onTestFinished(close)

  clock.looksUntilTurn = moment
  expect((await ask(port, 'POST', CHAT, [], JSON.stringify({ messages: HELLO }))).status).toBe(200)
  await close()
  planSwitch.turnTo(2)
  // The budget may be gone from the bundle; a plan that has it finds the same counter.
  engine.activate(planOf([BUDGET]))
  const llm = { promptTokens: TOKENS + 1, requestedTokens: undefined, choices: 1, isStream: false, model: undefined }
  const probe = engine.decide(new PlainRequestView({ method: 'POST', uri: '/v1/embeddings' }), { body: llm })
  if (probe instanceof Promise || probe.action !== 'reject') throw new Error('the probe was allowed')
  return TOKENS - probe.available
}

class TurningClock extends ManualClock {
  looksUntilTurn = Number.POSITIVE_INFINITY
  readonly #planSwitch: PlanSwitch

  constructor(planSwitch: PlanSwitch) {
    super()
    this.#planSwitch = planSwitch
  }

  override nowMs(): number {
    if (--this.looksUntilTurn === 0) this.#planSwitch.turnTo(2)
    return super.nowMs()
  }
}

function planOf(policies: readonly PolicyText[]): Plan {
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}

function closedOnce(close: () => Promise<void>): () => Promise<void> {
  let closed: Promise<void> | undefined
  return () => {
    closed ??= close()
    return closed
  }
}
