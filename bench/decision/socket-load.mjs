import { ask, OTHERS, start } from '../support/processes.mjs'

const CONNECTIONS = 32
const DEPTH = 8

/**
 * Load where there is no wrk: raw sockets in a process of ours. JavaScript is slower than nginx, so several requests go
 * out at once on each connection; servers save calls by that too, so these figures are lower than wrk's throughout.
 */
export async function newSocketLoad({ connections = CONNECTIONS, depth = DEPTH } = {}) {
  const generator = await start(OTHERS, new URL('./socket-generator.mjs', import.meta.url))
  return {
    name: 'sockets of our own (wrk is not installed)',
    details: `${connections} connections, ${depth} pipelined requests at a time on each`,
    run: ({ seconds, ...options }) => ask(generator, 'run', { ...options, ms: seconds * 1000, connections, depth }),
  }
}
