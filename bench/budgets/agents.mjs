import { generatedDuring, USUAL_TOKENS } from './backends.mjs'
import { chat } from './chat-client.mjs'
import { callerAt } from './contestants.mjs'
import { startBudgetEdge } from './edge.mjs'
import { hasLitellm, litellmCaller } from './litellm.mjs'

const BUDGET = 100_000
const AGENTS = 10
const REQUESTS = 3
const MAX_TOKENS = 32_000

/** Ten agents that ask for 32,000 tokens and use 500, three times each, one request after the other. All thirty would need a seventh of the budget. */
export async function measureAgents({ ports, litellm }) {
  const rows = []
  for (const contestant of contestants(ports, litellm)) {
    console.error(`agents: ${contestant.name}`)
    for (const isStream of [false, true]) {
      const row = { id: contestant.id, name: contestant.name, isStream }
      rows.push(
        contestant.isMissing ? { ...row, isMissing: true } : { ...row, ...(await measure(await contestant.open(), isStream, ports)) },
      )
    }
  }
  return { budget: BUDGET, requests: AGENTS * REQUESTS, maxTokens: MAX_TOKENS, rows }
}

function contestants(ports, litellm) {
  const edge = (id, name, config, rule) => ({
    id,
    name,
    open: () => startBudgetEdge({ backendPort: ports.usual, budget: BUDGET, config, rule }),
  })
  return [
    edge('edge', '`edge`'),
    edge('edge-waiting', '`edge`, `wait_seconds: 10`', {}, { wait_seconds: 10 }),
    edge('edge-growing', '`edge`, `reserve: {}`', { reserve: {} }),
    { id: 'litellm', name: 'LiteLLM', isMissing: !hasLitellm, open: () => litellmCaller(litellm.alone, { budget: BUDGET }) },
  ]
}

async function measure(caller, isStream, ports) {
  const begun = performance.now()
  const work = async () => (await Promise.all(Array.from({ length: AGENTS }, (_, i) => agent(callerAt(caller, i), isStream)))).flat()
  const { result, generated } = await generatedDuring(ports.usual, work)
  const longestMs = Math.max(...result.map(({ ms }) => ms))
  await caller.end()
  const passed = result.filter(({ status }) => status === 200).length
  const rejected = result.filter(({ status }) => status === 429)
  const waits = rejected.map(({ fields }) => Number(fields['retry-after'])).filter(Number.isFinite)
  return {
    passed,
    failed: result.length - passed - rejected.length,
    falselyRejected: Math.min(rejected.length, Math.max(0, Math.floor((BUDGET - generated.total) / USUAL_TOKENS))),
    retryAfter: waits.length === 0 ? undefined : [Math.min(...waits), Math.max(...waits)],
    longestMs,
    elapsedMs: performance.now() - begun,
  }
}

async function agent(caller, isStream) {
  const responses = []
  for (let i = 0; i < REQUESTS; i++) responses.push(await chat(caller, { model: 'usual', maxTokens: MAX_TOKENS, isStream }))
  return responses
}
