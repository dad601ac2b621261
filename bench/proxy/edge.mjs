import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { MEASURED, PROBE, start } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'

const LOW = { burst: 2, maxTokens: 1, dayTokens: 100 }
const HIGH = { burst: 1_000_000_000_000, maxTokens: 1_000_000, dayTokens: 999_999_999_999_999 }

/** edge of a built checkout with a rule for requests, three token budgets, and one worker. `raiseLimits` gives it a bundle whose limits nobody reaches. */
export async function startEdge({ directory, backend, env = {}, isProbed = false }) {
  const bundle = join(newScratchDirectory(), 'bundle.json')
  writeFileSync(bundle, bundleText(1, LOW))
  const server = await start(MEASURED, pathToFileURL(join(directory, 'program/edge.js')), {
    args: ['serve'],
    env: {
      EDGE_MODE: 'reverse_proxy',
      EDGE_BACKEND_URL: `http://127.0.0.1:${backend.port}`,
      EDGE_CONFIG_FILE: bundle,
      EDGE_HOST: '127.0.0.1',
      EDGE_PORT: '0',
      EDGE_LOG_LEVEL: 'error',
      EDGE_WORKERS: '1',
      ...env,
    },
    execArgv: isProbed ? PROBE : [],
  })
  return Object.assign(server, { raiseLimits: () => writeFileSync(bundle, bundleText(2, HIGH)) })
}

/** Streams are counted, counted and given usage, or passed on as they are. */
function bundleText(version, { burst, maxTokens, dayTokens }) {
  const limit_keys = ['header:x-api-key']
  const bucket = { name: 'requests', limit_keys, algorithm: 'token_bucket', algorithm_config: { tokens_per_second: 1, burst } }
  const llm = (name, streaming) => {
    const budget = { tokens_per_minute: 1_000_000_000, max_completion_tokens: maxTokens, streaming }
    return { name, limit_keys, algorithm: 'token_bucket_llm', algorithm_config: budget }
  }
  const day = { name: 'day', limit_keys, algorithm: 'token_bucket_llm', algorithm_config: { tokens_per_day: dayTokens } }
  const policy = (id, pathPrefix, rule) => ({ id, spec: { selector: { pathPrefix }, rules: [rule] } })
  return JSON.stringify({
    bundle_version: version,
    policies: [
      ...['/items', '/orders', '/documents', '/streams/plain'].map((path) => policy(`requests-${path.slice(1)}`, path, bucket)),
      policy('llm', '/llm', day),
      policy('counted', '/streams/counted', llm('tokens', { include_partial_usage: false, buffer_tokens: 1 })),
      policy('usage', '/streams/usage', llm('tokens', { include_partial_usage: true, buffer_tokens: 1 })),
    ],
  })
}
