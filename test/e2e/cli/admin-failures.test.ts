import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { AdminClient } from '../../../src/cli/admin/admin-client.ts'
import { ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { useStubApi } from '../../support/admin/stub-api.ts'
import { command } from '../../support/service/command.ts'

const { api, environment } = useStubApi()

describe('what goes wrong: 1, and a sentence', () => {
  test.each([
    ['no URL', { EDGE_ADMIN_TOKEN: ADMIN_TOKEN }, 'EDGE_ADMIN_URL: expected the URL of the admin port, such as http://127.0.0.1:9090'],
    ['a port for a test', { EDGE_ADMIN_PORT: '0', EDGE_ADMIN_TOKEN: ADMIN_TOKEN }, 'EDGE_ADMIN_PORT does not name one'],
    ['no URL but a text', { EDGE_ADMIN_URL: 'localhost:9090', EDGE_ADMIN_TOKEN: ADMIN_TOKEN }, 'begins with http:// or https://'],
    ['a password', { EDGE_ADMIN_URL: 'http://a:hunter2@b', EDGE_ADMIN_TOKEN: ADMIN_TOKEN }, 'without user, query and fragment'],
    ['a token in the URL', { EDGE_ADMIN_URL: 'http://b/?token=hunter2', EDGE_ADMIN_TOKEN: ADMIN_TOKEN }, 'without user, query'],
    ['no token', { EDGE_ADMIN_PORT: '9090' }, 'EDGE_ADMIN_TOKEN: expected the token that edge serve was started with'],
    ['a token with a line', { EDGE_ADMIN_PORT: '9090', EDGE_ADMIN_TOKEN: 'hunter2\nhunter2' }, 'EDGE_ADMIN_TOKEN: expected visible ASCII'],
  ])('%s', async (_what, env, part) => {
    environment(env)
    const { status, stdout, stderr } = await command('status')
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toMatch(/^edge status: .*\n$/)
    expect(stderr).toContain(part)
    expect(stderr).not.toContain('hunter2')
  })

  test.each([
    ['status x', 'x'],
    ['top a b c', 'got c too'],
    ['counters', 'expected a policy and a rule'],
    ['counters  r k=v', 'POLICY is empty: expected POLICY RULE'],
    ['reset api  k=v --reason x', 'RULE is empty: expected POLICY RULE'],
    ['override api  k=v --block --until 1h --reason x', 'RULE is empty: expected POLICY RULE'],
    ['override api  --all --block --until 1h --reason x --yes', 'RULE is empty: expected POLICY RULE'],
    ['override api k=v --block --until 1h --reason x', 'got "k=v" in the place of the rule: is the policy or the rule missing?'],
    ['override --end  --reason x', '--end: expected the id of an override, got an empty text; edge override --list shows the ids'],
    ['override --edit  --until 1h --reason x', '--edit: expected the id of an override, got an empty text'],
    ['counters api r alice', 'expected KEY=VALUE'],
    ['counters api r a=1 a=2', 'a is given twice'],
    ['reset api r a=1', 'expected --reason TEXT'],
    ['explain', 'expected one URI'],
    ['explain /a /b', 'expected one URI'],
    ['explain -H nonsense /', "-H: expected 'Name: value'"],
    ['override api r k=v --until 1h --reason x', 'expected exactly one of --multiply'],
    ['override api r k=v --multiply 2 --block --until 1h --reason x', 'expected exactly one of'],
    ['override api r k=v --multiply two --until 1h --reason x', '--multiply: expected a number, got "two"'],
    [
      'override api r k=v --multiply -1 --until 1h --reason x',
      '--multiply: expected a value, but the next argument begins with a dash; see',
    ],
    ['override api r k=v --set burst --until 1h --reason x', '--set: expected FIELD=N'],
    ['override api r k=v --set burst=1 --set burst=2 --until 1h --reason x', '--set: burst is given twice'],
    ['override api r k=v --block --reason x', 'expected --until TIME'],
    ['override api r k=v --block --until 1h', 'expected --reason TEXT'],
    ['override api r --block --until 1h --reason x', 'expected KEY=VALUE to name a caller, or --all for all callers of the rule'],
    ['override api r  --block --until 1h --reason x', 'expected KEY=VALUE, such as header:x-api-key=alice, got ""'],
    ['override api r k=v --all --block --until 1h --reason x', 'expected one of the two'],
    ['override api r k=v --unlimited --cut-streams --until 1h --reason x', '--cut-streams: expected only with --block'],
    ['override --shadow-all --all --until 1h --reason x', '--shadow-all: unexpected --all'],
    ['override --list api', '--list: unexpected api'],
    ['override --end abc --reason x --until 1h', '--end: unexpected --until'],
    ['override --shadow-all api --until 1h --reason x', '--shadow-all: unexpected api'],
    ['override --list --history', 'expected only one of --list, --history'],
    ['override --list --yes', '--list: unexpected --yes'],
    ['override --edit abc --reason x', '--edit: expected --until TIME, --cut-streams, or one of --multiply'],
    ['override --edit abc --until 1h', 'expected --reason TEXT'],
    ['override --edit abc --multiply 2 --cut-streams --reason x', '--cut-streams: expected only with --block'],
    ['override --edit abc --block --unlimited --reason x', 'expected exactly one of --multiply, --set, --unlimited, --block'],
    ['override --edit abc --until 1h --reason x --all', '--edit: unexpected --all'],
    ['override --edit  --until 1h --reason x', '--edit: expected the id of an override'],
    ['override api r k=v --block --until 1h --reason x --actor ', '--actor: expected a name'],
    ['status --token hunter2', '--token'],
  ])('edge %s', async (line, part) => {
    const [name, ...args] = line.split(' ')
    const { status, stdout, stderr } = await command(name!, ...args)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toMatch(new RegExp(`^edge ${name}: .*; see edge ${name} --help\\n$`))
    expect(stderr).toContain(part)
    expect(api().requests).toEqual([])
  })

  test('an override for all callers is not made where what it covers cannot be read', async () => {
    for (const line of [
      'api r --all --block --until 1h --reason x',
      '--shadow-all --until 1h --reason x',
      '--edit abc --block --reason x',
    ]) {
      const { status, stdout, stderr } = await command('override', ...line.split(' '))
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
      expect(stderr).toBe('edge override: this version of edge cannot read what the override would cover; nothing was changed\n')
    }
    expect(api().requests.every(({ url }) => url.startsWith('/admin/v1/overrides/preview'))).toBe(true)
  })

  test.each([
    [401, { error: { message: 'send the token', code: 'unauthorized' } }, 'EDGE_ADMIN_TOKEN: this is not the token'],
    [429, { error: { message: 'wrong', code: 'too_many_attempts' } }, 'EDGE_ADMIN_TOKEN: this is not the token'],
    [404, { error: { message: 'there is no policy "x"', code: 'unknown_policy' } }, 'there is no policy "x" (unknown_policy)'],
    [404, {}, 'does not respond as the admin API of edge does: status 404'],
    [409, { error: { message: 'abc is there', code: 'override_exists' } }, 'abc is there (override_exists)'],
    [302, {}, 'does not respond as the admin API of edge does: status 302'],
    [500, { error: 'x' }, 'does not respond as the admin API of edge does: status 500'],
    [200, 'text', 'cannot read the response; --json prints it'],
    [200, { overrides: [null] }, 'cannot read the response; --json prints it'],
  ])('a response %d %j', async (code, json, part) => {
    api().says(json, code)
    const { status, stdout, stderr } = await command('override', '--list')
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(part)
    expect(stderr).not.toContain(ADMIN_TOKEN)
  })

  test.each([200, 204, 302, 401, 404, 500])('what is no admin port and responds %d never sees the token', async (code) => {
    api().isIdentified = false
    api().says({ error: { message: 'not the admin API', code: 'not_found' } }, code)
    const { status, stdout, stderr } = await command('override', '--list')
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toBe(
      `edge override: ${api().url}/ has no admin API (it responded with status ${code}), so the token was not sent: ` +
        'expected EDGE_ADMIN_URL to name the port of EDGE_ADMIN_PORT, of an edge serve that has EDGE_ADMIN_TOKEN' +
        `${code === 401 ? '. If it does, that edge is too old for this command: use the command of its version' : ''}\n`,
    )
    expect(api().requests).toMatchObject([{ method: 'GET', url: '/admin/v1/status', body: undefined }])
    expect(JSON.stringify(api().requests)).not.toMatch(new RegExp(`${ADMIN_TOKEN}|ada`))
  })

  test.each<[string, (res: ServerResponse) => void, string]>([
    ['HTML', (res) => res.end('<html>'), 'does not respond as the admin API of edge does'],
    ['half a response', (res) => res.writeHead(200, { 'Content-Length': 9 }).write('{'), 'the connection was closed'],
  ])('%s', async (_what, respond, part) => {
    api().respond = (res) => {
      respond(res)
      setImmediate(() => res.socket?.end())
    }
    const { status, stderr } = await command('status')
    expect(status).toBe(1)
    expect(stderr).toContain(part)
  })

  test('nothing listens', async () => {
    environment({ EDGE_ADMIN_URL: 'http://127.0.0.1:1', EDGE_ADMIN_TOKEN: ADMIN_TOKEN })
    const { status, stderr } = await command('status')
    expect({ status, stderr }).toEqual({ status: 1, stderr: 'edge status: http://127.0.0.1:1/ is unreachable: nothing listens there\n' })
  })

  test('https where the server speaks http', async () => {
    environment({ EDGE_ADMIN_URL: api().url.replace('http', 'https'), EDGE_ADMIN_TOKEN: ADMIN_TOKEN })
    const { status, stderr } = await command('status')
    expect(status).toBe(1)
    expect(stderr).toContain('it does not speak TLS')
  })

  test.each<[string, (res: ServerResponse) => void]>([
    ['never', () => {}],
    ['in part', (res) => res.write('{')],
  ])('a server that responds %s', async (_how, respond) => {
    api().respond = respond
    const client = new AdminClient({ base: new URL(`${api().url}/`), token: ADMIN_TOKEN, actor: undefined }, 50)
    await expect(client.ask({ method: 'GET', path: 'status' })).rejects.toThrow(`${api().url}/ did not respond within 0.05 s`)
  })

  test('a stream that falls silent', async () => {
    api().respond = (res) => res.write('data: {}\n')
    const client = new AdminClient({ base: new URL(`${api().url}/`), token: ADMIN_TOKEN, actor: undefined }, 60_000, 50)
    const following = async (): Promise<void> => {
      for await (const data of client.follow({ method: 'GET', path: 'events' }, new AbortController().signal)) expect(data).toBe('{}')
    }
    await expect(following()).rejects.toThrow(`${api().url}/ has sent nothing for 0.05 s, so the connection is lost`)
  })
})
