import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../decision/free-port.mjs'
import { expect } from '../support/http-client.mjs'
import { MEASURED, startProgram, stop } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'
import { answering } from './backends.mjs'
import { chat } from './chat-client.mjs'

const FOLDER = fileURLToPath(new URL('./litellm/', import.meta.url))
const VERSION = /^version=(.*)$/m.exec(readFileSync(join(FOLDER, 'install.sh'), 'utf8'))[1]
const DIRECTORY = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'edge-test-parts', `litellm-${VERSION}`)

export const hasLitellm = existsSync(join(DIRECTORY, 'complete'))
export const litellmVersion = hasLitellm ? VERSION : 'not installed'

/**
 * One instance that counts in memory, and three that count in one Redis. They take half a minute to start, so they are started once, and each measurement has a
 * key of its own. Settings are those that its documentation recommends for production; calls end when clients hang up, which it does only if told to.
 */
export async function startLitellms(backendPorts, redisPort) {
  const alone = startLitellm(backendPorts)
  const sharing = [1, 2, 3].map(() => startLitellm(backendPorts, { redisPort }))
  const servers = { alone: [await alone], sharing: await Promise.all(sharing) }
  await expectToShare(servers.sharing)
  return servers
}

export async function stopLitellms(servers) {
  for (const server of servers === undefined ? [] : [...servers.alone, ...servers.sharing]) await stop(server)
}

/** A budget that one of them has charged is charged at the next: it would not be fair to compare with a fleet that is set up wrongly. */
async function expectToShare(servers) {
  const caller = litellmCaller(servers, { budget: 100_000 })
  const left = []
  for (const port of caller.ports) left.push(caller.remaining(await chat({ port, key: caller.key }, { model: 'usual', maxTokens: 500 })))
  expect(
    left.every((tokens, i) => i === 0 || tokens < left[i - 1]),
    `LiteLLM's instances share a budget, of which ${left.join(', ')} are left`,
  )
}

let keys = 0

/** A caller with this budget of tokens, or of money. `estimate` is what it is told that completions have. */
export function litellmCaller(servers, { budget, money, estimate = 0 }) {
  keys++
  return {
    servers,
    ports: servers.map(({ port }) => port),
    key: money === undefined ? `sk-tokens-${budget}-${estimate}-${process.pid}x${keys}` : `sk-money-${money}-0-${process.pid}x${keys}`,
    remaining: ({ fields }) => Number(fields['x-ratelimit-api_key-remaining-tokens']),
    end: async () => {},
  }
}

/** One instance. With a price for a token, callers may have budgets of money. */
export async function startLitellm(backendPorts, { redisPort, tokenPrice } = {}) {
  const directory = newScratchDirectory()
  cpSync(join(FOLDER, 'bench_auth.py'), join(directory, 'bench_auth.py'))
  // JSON is YAML.
  writeFileSync(join(directory, 'config.yaml'), JSON.stringify(configuration(backendPorts, redisPort, tokenPrice)))
  const port = await freePort()
  const args = ['--config', join(directory, 'config.yaml'), '--host', '127.0.0.1', '--port', String(port)]
  const child = startProgram(MEASURED, join(DIRECTORY, 'venv/bin/litellm'), args, {
    stdio: ['ignore', 'ignore', 'ignore'],
    env: {
      LITELLM_MODE: 'PRODUCTION',
      LITELLM_LOG: 'ERROR',
      LITELLM_MASTER_KEY: `sk-${randomBytes(24).toString('hex')}`,
      // It would be fetched from the network otherwise.
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      LITELLM_DISABLE_NO_REDIS_WARNING: 'true',
    },
  })
  await answering(child, port, '/health/liveliness')
  return Object.assign(child, { port })
}

function configuration(backendPorts, redisPort, tokenPrice) {
  const prices = tokenPrice === undefined ? {} : { input_cost_per_token: tokenPrice, output_cost_per_token: tokenPrice }
  return {
    model_list: Object.entries(backendPorts).map(([name, port]) => ({
      model_name: name,
      litellm_params: { model: `openai/${name}`, api_base: `http://127.0.0.1:${port}/v1`, api_key: 'none', ...prices },
    })),
    general_settings: {
      custom_auth: 'bench_auth.user_api_key_auth',
      cancel_on_disconnect: true,
      ...(tokenPrice !== undefined && { custom_auth_run_common_checks: true }),
      ...(redisPort !== undefined && { coordination_redis: { host: '127.0.0.1', port: redisPort } }),
    },
    litellm_settings: {
      set_verbose: false,
      request_timeout: 600,
      ...(tokenPrice !== undefined && { enable_post_custom_auth_checks: true }),
    },
    router_settings: redisPort === undefined ? {} : { redis_host: '127.0.0.1', redis_port: redisPort },
  }
}
