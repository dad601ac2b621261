import { stop } from '../support/processes.mjs'
import { startBudgetEdge } from './edge.mjs'
import { hasLitellm, litellmCaller, startLitellm } from './litellm.mjs'
import { measureBurst } from './parallel.mjs'

/** Input and output cost the same, so that a budget of money is one of tokens, and both tables can be read alike. */
const PRICE_PER_MILLION = 15
const COUNT = 50
const BUDGET_TOKENS = 10_000
const MONEY = (BUDGET_TOKENS * PRICE_PER_MILLION) / 1e6
const CASES = [
  { id: 'exact', title: '`max_tokens: 500`, 500 generated', model: 'usual', maxTokens: 500 },
  { id: 'generous', title: '`max_tokens: 2000`, 500 generated', model: 'usual', maxTokens: 2000 },
  { id: 'unstated', title: 'no `max_tokens`, 500 generated', model: 'usual' },
  { id: 'long', title: 'no `max_tokens`, 3,000 generated', model: 'long' },
]

/** Fifty requests at once, with budgets of money. LiteLLM has an instance of its own, because it checks such budgets only if it is told to. */
export async function measureMoney({ ports }) {
  const server = hasLitellm ? await startLitellm(ports, { tokenPrice: PRICE_PER_MILLION / 1e6 }) : undefined
  const rows = []
  for (const { id, name, isMissing, open } of contestants(ports, server)) {
    const cells = []
    for (const each of CASES.flatMap((each) => [false, true].map((isStream) => ({ ...each, isStream })))) {
      console.error(`money: ${name}, ${each.id}`)
      cells.push(await measureBurst({ isMissing, open }, each, { count: COUNT, budget: BUDGET_TOKENS, ports }))
    }
    rows.push({ id, name, count: COUNT, budget: BUDGET_TOKENS, cells })
  }
  if (server !== undefined) await stop(server)
  return { money: MONEY, perMillion: PRICE_PER_MILLION, cases: CASES.map(({ id, title }) => ({ id, title })), rows }
}

function contestants(ports, litellm) {
  const edge = (id, name, config) => ({
    id,
    name,
    open: ({ model }) => startBudgetEdge({ backendPort: ports[model], money: MONEY, perMillion: PRICE_PER_MILLION, config }),
  })
  return [
    edge('edge', '`edge`, `cost_budget`', {}),
    edge('edge-growing', '`edge`, `cost_budget`, `reserve: {}`', { reserve: {} }),
    { id: 'litellm', name: 'LiteLLM, `max_budget`', isMissing: !hasLitellm, open: () => litellmCaller([litellm], { money: MONEY }) },
  ]
}
