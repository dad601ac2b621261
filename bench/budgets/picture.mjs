import { drawBars } from '../decision/bar-chart.mjs'
import { drawPage } from '../decision/picture-page.mjs'
import { isRough } from './tables.mjs'

/** The results as an SVG: what passed of a budget, who was rejected for nothing, and what a request costs. */
export function drawPicture({ parts, versions, machine }) {
  const { parallel, agents, aborts, cost } = parts
  const streams = parallelBars(parallel, true, 'Tokens used : budget, streams without max_tokens')
  const responses = parallelBars(parallel, false, 'Tokens used : budget, whole responses without max_tokens')
  return drawPage({
    title: 'Does your budget hold?',
    description: describe(parallel),
    subtitle: `npm run bench:budgets · LiteLLM ${versions.litellm}, nginx ${versions.nginx}, node ${machine.node} · ${parallel.date}`,
    isRough: [parallel, agents, aborts, cost].some(isRough),
    topY: 76,
    columns: [
      [streams, abortBars(aborts)],
      [responses, agentBars(agents), costBars(cost)],
    ],
  })
}

/** Names in pictures have no marks of Markdown, and are short. */
const NAMES = {
  edge: 'edge',
  'edge-stated': 'edge, max 500',
  'edge-growing': 'edge, reserve',
  'edge-growing-expected': 'edge, reserve 500',
  'edge-waiting': 'edge, wait_seconds',
  'edge-fleet': '3 edge',
  'edge-fleet-growing-expected': '3 edge, reserve 500',
  litellm: 'LiteLLM',
  'litellm-fleet': '3 LiteLLM',
  nginx: 'nginx',
  ratelimit: 'Envoy ratelimit',
}

function parallelBars({ rows }, isStream, title) {
  const bars = rows
    .filter(({ id, count }) => count === 50 && Object.hasOwn(NAMES, id))
    .map(({ id, cells }) =>
      bar(
        id,
        cells.find((cell) => cell.case === 'long' && cell.isStream === isStream),
        ({ factor }) => factor,
        factorText,
      ),
    )
  return (x, y) => drawBars({ x, y, title, note: '50 at once, 3,000 tokens each, a budget of 10,000 · 1 is what was allowed', rows: bars })
}

function agentBars({ rows, requests }) {
  const bars = rows
    .filter(({ isStream }) => isStream)
    .map((row) =>
      bar(
        row.id,
        row,
        ({ falselyRejected }) => falselyRejected,
        ({ falselyRejected }) => `${falselyRejected} of ${requests}`,
      ),
    )
  return (x, y) =>
    drawBars({
      x,
      y,
      title: 'Rejected although the budget would do',
      note: 'streams of ten agents that ask for 32,000 tokens and use 500',
      rows: bars,
    })
}

function abortBars({ rows, count }) {
  const bars = rows
    .filter((row) => row.case === 'half' && Object.hasOwn(NAMES, row.id))
    .map((row) =>
      bar(
        row.id,
        row,
        ({ generated }) => generated,
        ({ generated, charged }) => `${generated}, ${charged} charged`,
      ),
    )
  return (x, y) =>
    drawBars({ x, y, title: 'Tokens generated for clients that left', note: `${count} streams of 500, left halfway`, rows: bars })
}

function costBars({ rows, kinds: [{ perSecond }] }) {
  const bars = rows
    .filter(({ id }) => id !== 'direct')
    .map((row) =>
      bar(
        row.id,
        row,
        ({ whole }) => whole.cpuMs,
        ({ whole }) => `${whole.cpuMs.toFixed(2)} ms · adds ${whole.addedP50Ms.toFixed(1)} ms`,
      ),
    )
  return (x, y) =>
    drawBars({ x, y, title: 'CPU time a request', note: `whole responses at ${perSecond} a second · what it adds, median`, rows: bars })
}

function bar(id, row, partOf, textOf) {
  const kind = id.startsWith('edge') ? 'edge' : 'peer'
  return row.isMissing
    ? { name: NAMES[id], kind, value: 'not installed' }
    : { name: NAMES[id], kind, parts: [partOf(row)], value: textOf(row) }
}

function factorText({ factor, falselyRejected }) {
  return `${factor.toFixed(2)} ×${falselyRejected > 0 ? ` · ${falselyRejected} falsely rejected` : ''}`
}

function describe({ rows }) {
  const cells = rows
    .filter(({ id, count }) => count === 50 && Object.hasOwn(NAMES, id))
    .map(({ id, cells: own }) => ({ id, cell: own.find((cell) => cell.case === 'long' && cell.isStream) }))
    .filter(({ cell }) => !cell.isMissing)
  return `Used by the budget, 50 streams of 3,000 tokens that state no bound: ${cells.map(({ id, cell }) => `${NAMES[id]} ${cell.factor.toFixed(2)}`).join(', ')}.`
}
