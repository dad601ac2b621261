import { ask } from '../support/processes.mjs'
import { COMPLETION, DOCUMENT, ITEM, ORDERS, withIds } from './requests.mjs'

/** As many as there are connections in the load of requests, twice: an event is half of a request's way. */
const STREAMS = 64

/** What is measured, with the least ratio to nginx that edge is to have, where one was set. */
export const WORKLOADS = {
  items: { title: 'small JSON', unit: 'request', request: ITEM, target: 0.8 },
  post: { title: 'POST of 1 KB', unit: 'request', request: ORDERS, target: 0.5 },
  documents: { title: '64 KB answers', unit: 'request', request: DOCUMENT, target: 0.35 },
  llm: { title: 'LLM request', unit: 'request', request: COMPLETION },
  counted: { title: 'SSE, LLM rule', unit: 'event', path: '/streams/counted/v1/chat/completions', target: 0.6 },
  usage: { title: 'SSE, usage added', unit: 'event', path: '/streams/usage/v1/chat/completions', target: 0.42 },
  plain: { title: 'SSE, no filter', unit: 'event', path: '/streams/plain/v1/chat/completions', target: 0.6 },
}

/** A contestant under this workload, as the rounds of bench/decision take it. */
export function caseOf({ request, path }, contestant, backend, { hasNewIds }) {
  if (request !== undefined) return { ...contestant, ...(hasNewIds ? withIds(request) : { request }) }
  const { server } = contestant
  const run = (seconds) => ask(backend, 'turns', { port: server.port, path, streams: STREAMS, ms: seconds * 1000 })
  return { ...contestant, run }
}
