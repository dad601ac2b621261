// `node --import` of a test's worker: Node reads TypeScript itself, which costs half of what loading through Vite does.
import * as module from 'node:module'
import { isMainThread } from 'node:worker_threads'

// Threads that tests start run what is built, some of them with little memory.
if (isMainThread) {
  // Since Node 22.15 this needs no thread of its own.
  if (module.registerHooks === undefined) module.register('./typescript-loader.mjs', import.meta.url)
  else module.registerHooks(await import('./typescript-loader.mjs'))
}
