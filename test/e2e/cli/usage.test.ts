import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { SETTING_GROUPS } from '../../../src/config/settings.ts'
import { command } from '../../support/service/command.ts'
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

const COMMANDS = [
  'edge serve',
  'edge validate FILE',
  'edge convert ratelimit FILE',
  'edge keygen',
  'edge sign',
  'edge fake-llm',
  'edge status',
  'edge explain URI',
  'edge counters POLICY RULE KEY=VALUE...',
  'edge top [POLICY [RULE]]',
  'edge override POLICY RULE KEY=VALUE...',
  'edge reset POLICY RULE KEY=VALUE...',
  'edge events [--follow]',
  'edge changes',
  'edge --version',
  'edge --help',
]

describe.concurrent('the program', () => {
  test('prints what it was asked for, and exits with 0', async (t) => {
    const { status, stdout, stderr } = await finished(['--help'], {}, t)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    for (const each of COMMANDS) expect(stdout).toContain(each)
  })
})

describe('help', () => {
  test.each(['--help', '-h', 'help'])('edge %s names every command and answers 0', async (arg) => {
    const { status, stdout, stderr } = await command(arg)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    for (const each of COMMANDS) expect(stdout).toContain(each)
  })

  test.each(['--help', '-h'])('edge serve %s lists every variable with its option, and starts nothing', async (arg) => {
    const { status, stdout, stderr } = await command('serve', arg)
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

  test('edge serve --help has a heading for each group of settings, and fits into 100 columns', async () => {
    const { stdout } = await command('serve', '--help')
    const headings = stdout.match(/^\S.*:$/gm)
    expect(headings).toEqual(SETTING_GROUPS.map(({ title }) => `${title}:`))
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100)
  })

  test('every help fits into 100 columns', async () => {
    const { stdout: help } = await command('--help')
    const names = Array.from(help.matchAll(/^ {2}edge ([a-z-]+)/gm), ([, name]) => name!).filter((name) => !name.startsWith('-'))
    expect(names).toEqual(expect.arrayContaining(['serve', 'replay', 'fake-llm', 'override', 'rollback', 'changes']))
    for (const args of [['--help'], ...names.map((name) => [name, '--help'])]) {
      const { status, stdout } = await command(...args)
      expect([status, stdout.split('\n').filter((line) => line.length > 100)], args.join(' ')).toEqual([0, []])
    }
  })

  test('edge --help tells commands that ask an instance from the others', async () => {
    const [others, asking] = (await command('--help')).stdout.split('\nAsk a running instance:\n')
    expect(others).toContain('  edge replay ')
    expect(asking).toMatch(/^ {2}edge status /)
    expect(asking).toContain('  edge changes ')
  })

  test.each([
    ['validate', '[--mode MODE] FILE...'],
    ['convert', 'ratelimit [--bundle-version N] FILE...'],
    ['keygen', '[--out NAME]'],
    ['sign', '--key FILE BUNDLE...'],
  ])('edge %s --help', async (name, usage) => {
    const { status, stdout } = await command(name, '--help')
    expect(status).toBe(0)
    expect(stdout).toContain(`Usage: edge ${name} ${usage}`)
  })
})

test.each(['--version', '-v'])('edge %s is the version of the package', async (arg) => {
  expect(await command(arg)).toEqual({ status: 0, stdout: `${version}\n`, stderr: '' })
})

describe('what edge does not know', () => {
  test('no command: 1, and the help', async () => {
    const { status, stdout, stderr } = await command()
    expect(status).toBe(1)
    expect(stdout + stderr).toContain('edge serve')
  })

  test.each(['start', '--verbose', '', '__proto__'])('the command %j: 1, named, with the way to the help', async (name) => {
    const { status, stdout, stderr } = await command(name)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(JSON.stringify(name))
    expect(stderr).toContain('edge --help')
  })

  test.each([
    ['an option', ['--prot', '80'], '--prot'],
    ['an option of one letter', ['-p', '80'], '-p'],
    ['an argument', ['bundle.json'], 'bundle.json'],
    ['an option without its value', ['--port'], '--port'],
    ['a token as an option', ['--config-token', 'hunter2'], '--config-token'],
    ['a secret as an option', ['--debug-session-secret', 'hunter2'], '--debug-session-secret'],
  ])('%s of serve: 1, named', async (_what, args, named) => {
    const { status, stdout, stderr } = await command('serve', ...args)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(named)
    expect(stderr).not.toContain('    at ')
    expect(stderr).not.toContain('hunter2')
  })

  test.each([
    ['serve --prot 80', "Unknown option '--prot' (did you mean --port?); see edge serve --help"],
    ['serve --admin-hots=::1', "Unknown option '--admin-hots' (did you mean --admin-host?); see edge serve --help"],
    ['serve --config-token hunter2', "Unknown option '--config-token' (set EDGE_CONFIG_TOKEN instead); see edge serve --help"],
    ['serve --redis-url=hunter2', "Unknown option '--redis-url' (set EDGE_REDIS_URL instead); see edge serve --help"],
    ['serve --config_file x', "Unknown option '--config_file' (did you mean --config-file?); see edge serve --help"],
    ['serve --EDGE_STORE_SIZE 1m', "Unknown option '--EDGE_STORE_SIZE' (did you mean --store-size?); see edge serve --help"],
    ['serve --redis_url=hunter2', "Unknown option '--redis_url' (set EDGE_REDIS_URL instead); see edge serve --help"],
    ['validate --store_size 64m b.json', "Unknown option '--store_size' (set EDGE_STORE_SIZE instead); see edge validate --help"],
    ['override --dry_run', "Unknown option '--dry_run' (did you mean --dry-run?); see edge override --help"],
    ['serve --no-top', "Unknown option '--no-top'; see edge serve --help"],
    ['serve -p 80', "Unknown option '-p'; see edge serve --help"],
    ['serve --port --host', '--port: expected a value, but the next argument begins with a dash; see edge serve --help'],
    ['validate --mdoe x b.json', "Unknown option '--mdoe' (did you mean --mode?); see edge validate --help"],
    ['validate --store-size 64m b.json', "Unknown option '--store-size' (set EDGE_STORE_SIZE instead); see edge validate --help"],
    ['test --tpa b.json c.yaml', "Unknown option '--tpa' (did you mean --tap?); see edge test --help"],
    ['replay --bundel b.json l.log', "Unknown option '--bundel' (did you mean --bundle?); see edge replay --help"],
    [
      'convert --bundle-versoin 1 ratelimit f',
      "Unknown option '--bundle-versoin' (did you mean --bundle-version?); see edge convert --help",
    ],
    ['keygen --name x', "Unknown option '--name'; see edge keygen --help"],
    ['sign --keys k b.json', "Unknown option '--keys' (did you mean --key?); see edge sign --help"],
    ['fake-llm --tokesn 5', "Unknown option '--tokesn' (did you mean --tokens?); see edge fake-llm --help"],
    ['status --jsn', "Unknown option '--jsn' (did you mean --json?); see edge status --help"],
    ['status --admin-token hunter2', "Unknown option '--admin-token' (set EDGE_ADMIN_TOKEN instead); see edge status --help"],
    ['override p r --untill 2h', "Unknown option '--untill' (did you mean --until?); see edge override --help"],
    ['top --hlep', "Unknown option '--hlep' (did you mean --help?); see edge top --help"],
  ])('edge %s: 1, with what was meant and the way to the help', async (line, sentence) => {
    const { status, stdout, stderr } = await command(...line.split(' '))
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(
      stderr
        .trimEnd()
        .split('\n')
        .at(-1)!
        .replace(/^(?:edge \S+:| ) /, ''),
    ).toBe(sentence)
    expect(stderr).not.toContain('hunter2')
  })

  test.each([
    ['valdate', 'validate'],
    ['Serve', 'serve'],
    ['overide', 'override'],
    ['stat', 'status'],
    ['fakellm', 'fake-llm'],
  ])('the command %s may have been meant as %s', async (name, meant) => {
    const { status, stderr } = await command(name)
    expect(status).toBe(1)
    expect(stderr).toBe(`edge: unknown command "${name}" (did you mean "${meant}"?); see edge --help\n`)
  })

  test('an option of validate: 1, named', async () => {
    const { status, stdout, stderr } = await command('validate', '--strict', 'bundle.json')
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain('--strict')
  })
})
