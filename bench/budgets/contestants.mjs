import { startBudgetEdge } from './edge.mjs'
import { hasLitellm, litellmCaller } from './litellm.mjs'

/** What somebody knows who says that completions have about 500 tokens. */
const EXPECTED = 500

/** What an edge's rule says beside its budget. Names of rows say all of it, because some of it is known of this backend alone. */
const DEFAULT = {}
const STATED = { max_completion_tokens: EXPECTED, streaming: { buffer_tokens: 20 } }
const GROWING = { reserve: {} }
const GROWING_AS_EXPECTED = { reserve: { first: EXPECTED, step: 100 } }
const AS_EXPECTED_TEXT = `\`reserve: {first: ${EXPECTED}, step: 100}\``

/** Whoever counts tokens. `open` has a budget and a model, and answers a caller: ports and a key. */
export function tokenBudgets({ ports, litellm, redisPort }) {
  const edge = (id, name, config, more = {}) => ({
    id,
    name,
    open: ({ model, budget }) => startBudgetEdge({ backendPort: ports[model], budget, config, ...more, prefix: newPrefix() }),
  })
  const peer = (id, name, servers, estimate) => ({
    id,
    name,
    isMissing: !hasLitellm,
    open: ({ budget }) => litellmCaller(servers(), { budget, estimate }),
  })
  // Redis shares a core with two hundred clients here: a wait for it is no failure.
  const fleet = { count: 3, redisPort, env: { EDGE_REDIS_TIMEOUT_MS: '2000' } }
  return [
    edge('edge', '`edge`', DEFAULT),
    edge('edge-stated', '`edge`, `max_completion_tokens: 500`, `buffer_tokens: 20`', STATED),
    edge('edge-growing', '`edge`, `reserve: {}`', GROWING),
    edge('edge-growing-expected', `\`edge\`, ${AS_EXPECTED_TEXT}`, GROWING_AS_EXPECTED),
    edge('edge-fleet', 'three `edge` on Redis', DEFAULT, fleet),
    edge('edge-fleet-growing-expected', `three \`edge\` on Redis, ${AS_EXPECTED_TEXT}`, GROWING_AS_EXPECTED, fleet),
    peer('litellm', 'LiteLLM', () => litellm.alone),
    peer('litellm-stated', 'LiteLLM, `default_estimated_output_tokens: 500`', () => litellm.alone, EXPECTED),
    peer('litellm-fleet', 'three LiteLLM on Redis', () => litellm.sharing),
  ]
}

/** Ports in turn, as a load balancer would. */
export function callerAt({ ports, key }, index) {
  return { port: ports[index % ports.length], key }
}

let prefixes = 0

/** A fleet shares its counters with no other. */
function newPrefix() {
  prefixes++
  return `bench-${process.pid}-${prefixes}:`
}
