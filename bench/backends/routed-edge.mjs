import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { oneRule, policy } from '../support/bundle.mjs'
import { MEASURED, OTHERS, start } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'

/** The cheap backend of `npm run bench:proxy`. */
export function startBackend() {
  return start(OTHERS, new URL('../proxy/backend.mjs', import.meta.url))
}

/** `edge` with one worker, one rule that rejects nobody, and these backends and routes. Without routes the first backend is EDGE_BACKEND_URL. */
export function startRoutedEdge(backends, { routes, settings = {}, env = {} }) {
  const urls = Object.entries(backends).map(([name, { port }]) => [name, `http://127.0.0.1:${port}`])
  const named = Object.fromEntries(urls.map(([name, url]) => [name, { url, ...settings[name] }]))
  const bundle = { bundle_version: 1, policies: [policy('bench', '/', oneRule())], ...(routes && { backends: named, routes }) }
  const path = join(newScratchDirectory(), 'bundle.json')
  writeFileSync(path, JSON.stringify(bundle))
  const hosts = urls.map(([, url]) => new URL(url).host).join()
  return start(MEASURED, new URL('../../program/edge.js', import.meta.url), {
    args: ['serve'],
    env: {
      EDGE_MODE: 'reverse_proxy',
      ...(routes === undefined ? { EDGE_BACKEND_URL: urls[0][1] } : { EDGE_BACKEND_HOSTS: hosts }),
      EDGE_CONFIG_FILE: path,
      EDGE_HOST: '127.0.0.1',
      EDGE_PORT: '0',
      EDGE_LOG_LEVEL: 'error',
      EDGE_WORKERS: '1',
      ...env,
    },
  })
}
