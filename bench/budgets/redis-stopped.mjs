import { setTimeout as sleep } from 'node:timers/promises'
import { percentile } from '../support/statistics.mjs'
import { generatedDuring, USUAL_TOKENS } from './backends.mjs'
import { chat } from './chat-client.mjs'
import { callerAt } from './contestants.mjs'
import { startBudgetEdge } from './edge.mjs'
import { hasLitellm, litellmCaller } from './litellm.mjs'
import { startAskedRatelimit } from './request-limiters.mjs'

const PER_SECOND = 10
/** Seconds: with Redis, while it is stopped, and with it again. */
const PHASES = { before: 3, stopped: 10, after: 5 }
/** The budget is that of so many requests. More come while Redis is stopped than a single instance could admit by itself. */
const FITTING = 40
const BUDGET = FITTING * USUAL_TOKENS

/**
 * A steady rate of requests, and a Redis that is stopped (SIGSTOP) for a while: it accepts connections and never answers. `factor` is what was admitted in all by
 * the budget; `maxMs` is the longest that anybody waited for a response, and other delays are those of requests that were sent while it was stopped.
 */
export async function measureRedisStopped({ ports, litellm, redis, redisPort }) {
  const edge = (id, name, count) => ({
    id,
    name,
    open: async () => ({
      ...(await startBudgetEdge({ backendPort: ports.usual, budget: BUDGET, count, redisPort, prefix: `stopped-${id}-${process.pid}:` })),
      redis,
    }),
  })
  const contestants = [
    edge('edge', 'one `edge`', 1),
    edge('edge-fleet', 'three `edge`', 3),
    {
      id: 'litellm-fleet',
      name: 'three LiteLLM',
      isMissing: !hasLitellm,
      open: () => ({ ...litellmCaller(litellm.sharing, { budget: BUDGET }), redis }),
    },
    { id: 'ratelimit', name: 'envoyproxy/ratelimit', open: () => startAskedRatelimit(FITTING) },
  ]
  const rows = []
  for (const { id, name, isMissing, open } of contestants) {
    console.error(`Redis stopped: ${name}`)
    const caller = isMissing ? undefined : await open()
    rows.push({ id, name, ...(caller === undefined ? { isMissing: true } : await measure(caller, ports)) })
  }
  return { perSecond: PER_SECOND, seconds: PHASES, fitting: FITTING, rows }
}

async function measure(caller, ports) {
  const sent = []
  const ask = async (i) => {
    if (caller.decide) return timed(() => caller.decide('bench'))
    return chat(callerAt(caller, i), { model: 'usual', maxTokens: USUAL_TOKENS })
  }
  const send = async (phase) => {
    for (let i = 0; i < PHASES[phase] * PER_SECOND; i++) {
      sent.push(ask(sent.length).then((response) => ({ ...response, phase })))
      await sleep(1000 / PER_SECOND)
    }
  }
  const work = async () => {
    await send('before')
    caller.redis.kill('SIGSTOP')
    await send('stopped')
    caller.redis.kill('SIGCONT')
    await send('after')
    return Promise.all(sent)
  }
  const { result: responses, generated } = await generatedDuring(ports.usual, work)
  await caller.end()
  const admitted = responses.filter(({ status }) => status === 200)
  const stopped = responses.filter(({ phase }) => phase === 'stopped')
  const delays = stopped.map(({ ms }) => ms)
  return {
    requests: responses.length,
    admitted: admitted.length,
    rejected: responses.filter(({ status }) => status === 429).length,
    factor: caller.decide ? admitted.length / FITTING : generated.total / BUDGET,
    stoppedAdmitted: stopped.filter(({ status }) => status === 200).length,
    stoppedFailed: stopped.filter(({ status }) => status !== 200 && status !== 429).length,
    p50Ms: percentile(delays, 0.5),
    p99Ms: percentile(delays, 0.99),
    maxMs: Math.max(...responses.map(({ ms }) => ms)),
  }
}

async function timed(decide) {
  const begun = performance.now()
  const status = await decide()
  return { status, ms: performance.now() - begun }
}
