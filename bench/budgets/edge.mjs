import { startEdgeWith } from '../decision/edge.mjs'
import { stop } from '../support/processes.mjs'

/**
 * edge as a reverse proxy with one budget for each bearer token, of tokens or of `money`; `config` is what the rule says beside the budget. With a Redis there
 * are as many instances as `count` says, which share it. A day's budget is used because it does not refill: nothing that passes can be excused by time.
 */
export async function startBudgetEdge(asked) {
  const { backendPort, budget, money, perMillion, config = {}, rule = {}, count = 1, redisPort, prefix, env = {} } = asked
  const limit =
    money === undefined
      ? { algorithm: 'token_bucket_llm', algorithm_config: { tokens_per_day: budget, ...config } }
      : { algorithm: 'cost_budget', algorithm_config: { budget: money, period: '1d', prices: 'main', ...config } }
  const more = money === undefined ? {} : { prices: { main: { '*': { input: perMillion, output: perMillion } } } }
  const policies = [
    {
      id: 'llm',
      spec: {
        selector: { pathPrefix: '/v1' },
        rules: [{ name: 'day', limit_keys: ['bearer'], ...limit, ...rule }],
      },
    },
  ]
  const settings = {
    EDGE_MODE: 'reverse_proxy',
    // What Redis does to them is measured, and not reported line by line.
    EDGE_LOG_LEVEL: 'silent',
    EDGE_BACKEND_URL: `http://127.0.0.1:${backendPort}`,
    ...(redisPort !== undefined && { EDGE_REDIS_URL: `redis://127.0.0.1:${redisPort}`, EDGE_REDIS_PREFIX: prefix }),
    ...env,
  }
  const servers = []
  for (let i = 0; i < count; i++) servers.push(await startEdgeWith(policies, settings, more))
  return {
    servers,
    ports: servers.map(({ port }) => port),
    key: 'bench',
    remaining: ({ fields }) => Number(fields['ratelimit-remaining']),
    end: async () => {
      for (const server of servers) await stop(server)
    },
  }
}
