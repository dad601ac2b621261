import { generatedDuring, MODELS } from './backends.mjs'
import { AMPLE, chargedFor } from './charged.mjs'
import { chat } from './chat-client.mjs'
import { callerAt } from './contestants.mjs'
import { startBudgetEdge } from './edge.mjs'
import { hasLitellm, litellmCaller } from './litellm.mjs'

const COUNT = 10
const HALF = MODELS.slow.tokens / 2
const CASES = [
  { id: 'half', title: 'streams, halfway', isStream: true, abortAfterTokens: HALF },
  { id: 'first', title: 'streams, at their first event', isStream: true, abortAfterTokens: 1 },
  { id: 'whole', title: 'whole responses, before they come', isStream: false, abortAfterMs: MODELS.slow['delay-ms'] / 2 },
]

/**
 * Ten clients that hang up. `generated` is what the backend generated, which for whole responses is all or nothing; `charged` what the budget lost, prompts
 * included; `served` how many of the backend's calls went on to a response.
 */
export async function measureAborts({ ports, litellm }) {
  const contestants = [
    { id: 'edge', name: '`edge`', open: () => startBudgetEdge({ backendPort: ports.slow, budget: AMPLE }) },
    {
      id: 'edge-keep',
      name: '`edge`, `without_usage: keep`',
      open: () => startBudgetEdge({ backendPort: ports.slow, budget: AMPLE, config: { without_usage: 'keep' } }),
    },
    {
      id: 'litellm',
      name: 'LiteLLM',
      isMissing: !hasLitellm,
      open: () => litellmCaller(litellm.alone, { budget: AMPLE }),
    },
  ]
  const rows = []
  for (const contestant of contestants) {
    console.error(`aborts: ${contestant.name}`)
    for (const { id, ...how } of CASES) {
      const row = { id: contestant.id, name: contestant.name, case: id }
      rows.push(contestant.isMissing ? { ...row, isMissing: true } : { ...row, ...(await measure(await contestant.open(), how, ports)) })
    }
  }
  return { count: COUNT, tokens: MODELS.slow.tokens, cases: CASES.map(({ id, title }) => ({ id, title })), rows }
}

async function measure(caller, how, ports) {
  const request = { model: 'slow', maxTokens: MODELS.slow.tokens, ...how }
  const hangUp = () => Promise.all(Array.from({ length: COUNT }, (_, i) => chat(callerAt(caller, i), request)))
  const { result, charged } = await chargedFor(caller, 'slow', () => generatedDuring(ports.slow, hangUp))
  await caller.end()
  const { generated, result: responses } = result
  const finished = responses.filter(({ isComplete }) => isComplete).length
  if (finished > 0) throw new Error(`${finished} of ${COUNT} responses came before their clients hung up`)
  return { generated: generated.total, charged, served: generated.responses }
}
