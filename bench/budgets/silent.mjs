import { AMPLE, chargedFor } from './charged.mjs'
import { chat } from './chat-client.mjs'
import { callerAt } from './contestants.mjs'
import { startBudgetEdge } from './edge.mjs'
import { hasLitellm, litellmCaller } from './litellm.mjs'
import { TEXTS } from './texts.mjs'

/** Every prompt is the name of a text: one or two tokens, by any count. */
const KINDS = Object.entries(TEXTS)

/** Responses whose backend reports no usage: what a budget is charged for each kind of text, beside what its tokens would be. */
export async function measureSilent({ ports, litellm }) {
  const contestants = [
    { id: 'edge', name: '`edge`', open: () => startBudgetEdge({ backendPort: ports.texts, budget: AMPLE }) },
    { id: 'litellm', name: 'LiteLLM', isMissing: !hasLitellm, open: () => litellmCaller(litellm.alone, { budget: AMPLE }) },
  ]
  const rows = []
  for (const contestant of contestants) {
    console.error(`without usage: ${contestant.name}`)
    for (const isStream of [false, true]) {
      const row = { id: contestant.id, name: contestant.name, isStream }
      rows.push(contestant.isMissing ? { ...row, isMissing: true } : { ...row, charged: await measure(contestant, isStream) })
    }
  }
  return { texts: KINDS.map(([name, { tokens }]) => ({ name, tokens })), rows }
}

/** By kind of text. */
async function measure(contestant, isStream) {
  const charged = {}
  for (const [name] of KINDS) {
    const caller = await contestant.open()
    const ask = () => chat(callerAt(caller, 0), { model: 'texts', isStream, hasUsage: false, content: name })
    const { result, charged: tokens } = await chargedFor(caller, 'texts', ask)
    await caller.end()
    if (result.status !== 200) throw new Error(`${contestant.name} answered ${result.status}`)
    charged[name] = tokens
  }
  return charged
}
