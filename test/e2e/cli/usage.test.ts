import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { finished } from '../../support/service/running.ts'

const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as { version: string }

const VARIABLES = [
  'EDGE_PORT',
  'EDGE_HOST',
  'EDGE_MODE',
  'EDGE_BACKEND_URL',
  'EDGE_CONFIG_FILE',
  'EDGE_CONFIG_URL',
  'EDGE_CONFIG_TOKEN',
  'EDGE_CONFIG_POLL_INTERVAL',
  'EDGE_CONFIG_CACHE_FILE',
  'EDGE_CONFIG_PUBLIC_KEY',
  'EDGE_DEBUG_SESSION_SECRET',
  'EDGE_LOG_LEVEL',
  'EDGE_ADMIN_PORT',
  'EDGE_TRUSTED_PROXIES',
  'EDGE_STORE_SIZE',
  'EDGE_GEOIP_FILE',
  'EDGE_IP_TYPE_FILE',
  'EDGE_TOR_EXITS_FILE',
  'EDGE_KEEPALIVE_MS',
  'EDGE_HEADERS_TIMEOUT_MS',
  'EDGE_REQUEST_TIMEOUT_MS',
  'EDGE_DRAIN_MS',
  'EDGE_SHUTDOWN_MS',
]

const SECRETS = new Set(['EDGE_CONFIG_TOKEN', 'EDGE_DEBUG_SESSION_SECRET'])

describe.concurrent('help', () => {
  test.for(['--help', '-h', 'help'])('edge %s names every command and answers 0', async (arg, t) => {
    const { status, stdout, stderr } = await finished([arg], {}, t)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const commands = ['edge serve', 'edge validate FILE', 'edge keygen', 'edge sign', 'edge fake-llm', 'edge --version', 'edge --help']
    for (const command of commands) expect(stdout).toContain(command)
  })

  test.for(['--help', '-h'])('edge serve %s lists every variable with its option, and starts nothing', async (arg, t) => {
    const { status, stdout, stderr } = await finished(['serve', arg], {}, t)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const lines = stdout.split('\n')
    for (const variable of VARIABLES) {
      const line = lines.find((text) => text.split(/\s+/).includes(variable))
      const option = `--${variable.replace('EDGE_', '').replaceAll('_', '-').toLowerCase()}`
      expect(line, variable).toBeDefined()
      if (SECRETS.has(variable)) expect(line).not.toContain('--')
      else expect(line!.trim().split(/\s+/)[0]).toBe(option)
    }
    expect(stdout).toMatch(/EDGE_PORT .*8080/)
    expect(stdout).toContain('SIGHUP')
  })

  test('edge serve --help helps although the environment is wrong', async (t) => {
    expect((await finished(['serve', '--help'], { EDGE_PORT: 'nonsense' }, t)).status).toBe(0)
  })

  test.for([
    ['validate', 'FILE...'],
    ['keygen', '[--out NAME]'],
    ['sign', '--key FILE BUNDLE...'],
  ] as const)('edge %s --help', async ([command, usage], t) => {
    const { status, stdout } = await finished([command, '--help'], {}, t)
    expect(status).toBe(0)
    expect(stdout).toContain(`Usage: edge ${command} ${usage}`)
  })
})

test.each(['--version', '-v'])('edge %s is the version of the package', async (arg) => {
  const { status, stdout, stderr } = await finished([arg])
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: `${version}\n`, stderr: '' })
})

describe.concurrent('what edge does not know', () => {
  test('no command: 1, and the help', async (t) => {
    const { status, stdout, stderr } = await finished([], {}, t)
    expect(status).toBe(1)
    expect(stdout + stderr).toContain('edge serve')
  })

  test.for(['start', '--verbose', '', '__proto__'])('the command %j: 1, named, with the way to the help', async (command, t) => {
    const { status, stdout, stderr } = await finished([command], {}, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(JSON.stringify(command))
    expect(stderr).toContain('edge --help')
  })

  test.for([
    ['an option', ['--prot', '80'], '--prot'],
    ['an option of one letter', ['-p', '80'], '-p'],
    ['an argument', ['bundle.json'], 'bundle.json'],
    ['an option without its value', ['--port'], '--port'],
    ['a token as an option', ['--config-token', 'hunter2'], '--config-token'],
    ['a secret as an option', ['--debug-session-secret', 'hunter2'], '--debug-session-secret'],
  ] as const)('%s of serve: 1, named', async ([_what, args, named], t) => {
    const { status, stdout, stderr } = await finished(['serve', ...args], { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1' }, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(named)
    expect(stderr).not.toContain('    at ')
    expect(stderr).not.toContain('hunter2')
  })

  test('an option of validate: 1, named', async (t) => {
    const { status, stdout, stderr } = await finished(['validate', '--strict', 'bundle.json'], {}, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain('--strict')
  })
})
