import { ask, OTHERS, start } from '../support/processes.mjs'

/** Calls of ours: HTTP/2 on raw sockets, with a key, a request id and a traceparent of its own for each call. */
export async function newGrpcLoad() {
  const generator = await start(OTHERS, new URL('./grpc-generator.mjs', import.meta.url))
  return {
    run: ({ seconds, ...options }) => ask(generator, 'run', { ...options, ms: seconds * 1000 }),
    prove: (options) => ask(generator, 'prove', options),
  }
}
