import { generatedDuring, MODELS, PROMPT_TOKENS, USUAL_TOKENS } from './backends.mjs'
import { chat } from './chat-client.mjs'
import { callerAt, tokenBudgets } from './contestants.mjs'
import { nginxFile, startAskedRatelimit, startLimitingNginx } from './request-limiters.mjs'

/** A budget that two fifths of the requests fit into. */
const SIZES = [
  { count: 50, budget: 10_000 },
  { count: 200, budget: 40_000 },
]
/** The second is LiteLLM's, when a budget of money is used up. */
const REJECTS = [429, 422]
/** What clients ask for, and what they get. */
const CASES = [
  { id: 'exact', title: '`max_tokens: 500`, 500 generated', model: 'usual', maxTokens: 500 },
  { id: 'unstated', title: 'no `max_tokens`, 500 generated', model: 'usual' },
  { id: 'long', title: 'no `max_tokens`, 3,000 generated', model: 'long', counts: [50] },
]

/**
 * So many requests of one caller at once, whole and as streams. `factor`: what the backend generated, prompts included, by the budget. `falselyRejected`:
 * rejected requests that would have fitted into what was left in the end.
 */
export async function measureParallel(parts, counts) {
  const rows = []
  for (const { count, budget } of SIZES.filter((size) => counts.includes(size.count))) {
    const cases = CASES.filter(({ counts = [count] }) => counts.includes(count))
    const contestants = [...tokenBudgets(parts), ...requestLimiters(parts)]
    const columns = cases.flatMap((each) => [false, true].map((isStream) => ({ ...each, isStream })))
    for (const contestant of contestants) {
      console.error(`${count} at once: ${contestant.name}`)
      const cells = []
      for (const column of columns) cells.push(await measureBurst(contestant, column, { count, budget, ports: parts.ports }))
      rows.push({ id: contestant.id, name: contestant.name, count, budget, cells })
    }
  }
  return { cases: CASES.map(({ id, title }) => ({ id, title })), rows }
}

/** One cell: so many requests at once, all of a caller with this budget of tokens. */
export async function measureBurst(contestant, { id, model, maxTokens, isStream }, { count, budget, ports }) {
  const cell = { case: id, isStream }
  const caller = contestant.isMissing ? undefined : await contestant.open({ model, budget })
  if (caller === undefined) return { ...cell, isMissing: true }
  const ask = (i) => (caller.decide ? decided(caller) : chat(callerAt(caller, i), { model, maxTokens, isStream }))
  const work = () => Promise.all(Array.from({ length: count }, (_, i) => ask(i)))
  const { result: responses, generated } = await generatedDuring(ports[model], work)
  await caller.end()
  const each = PROMPT_TOKENS + MODELS[model].tokens
  const passed = responses.filter(({ status }) => status === 200)
  const rejected = responses.filter(({ status }) => REJECTS.includes(status))
  const used = caller.decide ? passed.length * each : generated.total
  const waits = rejected.map(({ fields = {} }) => Number(fields['retry-after'])).filter(Number.isFinite)
  return {
    ...cell,
    passed: passed.length,
    failed: count - passed.length - rejected.length,
    cut: passed.filter(({ tokens, isComplete }) => isStream && isComplete && tokens < MODELS[model].tokens).length,
    factor: used / budget,
    falselyRejected: Math.min(rejected.length, Math.max(0, Math.floor((budget - used) / each))),
    retryAfter: waits.length === 0 ? undefined : [Math.min(...waits), Math.max(...waits)],
  }
}

/** Those who count requests get as many as the budget would hold of those with 500 tokens. */
function requestLimiters({ ports }) {
  return [
    {
      id: 'nginx',
      name: 'nginx `limit_req`, by requests',
      isMissing: nginxFile === undefined,
      open: ({ model, budget }) => startLimitingNginx(ports[model], Math.floor(budget / USUAL_TOKENS)),
    },
    {
      id: 'ratelimit',
      name: 'envoyproxy/ratelimit, by requests',
      open: ({ budget }) => startAskedRatelimit(Math.floor(budget / USUAL_TOKENS)),
    },
  ]
}

async function decided(caller) {
  return { status: await caller.decide('bench') }
}
