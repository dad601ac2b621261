import { describe, expect, test } from 'vitest'
import { readHere } from './bundle-intake.ts'
import { rolledBackText } from './rolled-back-text.ts'

function rolledBack(text: string, version = '43'): Promise<string> {
  return rolledBackText(text, text.trimStart().startsWith('{') ? 'json' : 'yaml', version, readHere)
}

describe('only the version is replaced', () => {
  test.each([
    ['JSON', '{ "policies": [],\r\n\t"bundle_version" : 41 }\n', '{ "policies": [],\r\n\t"bundle_version" : 43 }\n'],
    ['a text in JSON', '{"bundle_version":"041","policies":[]}', '{"bundle_version":"43","policies":[]}'],
    ['an escaped name', '{"bundle\\u005fversion":41,"policies":[]}', '{"bundle\\u005fversion":43,"policies":[]}'],
    [
      'another bundle_version further in',
      '{"metadata":{"bundle_version":41},"bundle_version":41,"policies":[]}',
      '{"metadata":{"bundle_version":41},"bundle_version":43,"policies":[]}',
    ],
    [
      'YAML',
      '# bundle_version: 41\nbundle_version:   41   # of May\npolicies: []\n',
      '# bundle_version: 41\nbundle_version:   43   # of May\npolicies: []\n',
    ],
    ['quotes in YAML', "policies: []\r\nbundle_version: '41'\r\n", "policies: []\r\nbundle_version: '43'\r\n"],
    ['a number of another base', 'bundle_version: 0x29\npolicies: []\n', 'bundle_version: 43\npolicies: []\n'],
    [
      'an anchor',
      'bundle_version: &v "41"\nmetadata: { v: *v }\npolicies: []\n',
      'bundle_version: &v "43"\nmetadata: { v: *v }\npolicies: []\n',
    ],
    [
      'an alias',
      'metadata: { v: &v 41 }\nbundle_version: *v\npolicies: []\n',
      'metadata: { v: &v 41 }\nbundle_version: 43\npolicies: []\n',
    ],
    ['a block', 'bundle_version: |-\n  41\npolicies: []\n', 'bundle_version: |-\n  43\npolicies: []\n'],
    ['a byte order mark', '\ufeffbundle_version: 41\npolicies: []\n', '\ufeffbundle_version: 43\npolicies: []\n'],
    ['brackets', '---\n{bundle_version: 41, policies: []}\n', '---\n{bundle_version: 43, policies: []}\n'],
  ])('%s', async (_what, text, expected) => {
    expect(await rolledBack(text)).toBe(expected)
  })

  test('a version beyond what a double can tell apart gets quotes, unless it has them', async () => {
    const version = '9007199254740993'
    expect(await rolledBack('{"bundle_version":41,"policies":[]}', version)).toBe(`{"bundle_version":"${version}","policies":[]}`)
    expect(await rolledBack('bundle_version: 41\npolicies: []\n', version)).toBe(`bundle_version: "${version}"\npolicies: []\n`)
    expect(await rolledBack('bundle_version: "41"\npolicies: []\n', version)).toBe(`bundle_version: "${version}"\npolicies: []\n`)
  })
})

test('what would not be the same policies under that version is never returned', async () => {
  await expect(rolledBack('bundle_version: 41\npolicies: 7\n')).rejects.toThrow('cannot read the earlier bundle')
  // The id of a policy is written where the version is.
  const shared = 'bundle_version: &v "41"\npolicies: [{ id: *v, spec: { rules: [] } }]\n'
  await expect(rolledBack(shared)).rejects.toThrow('publish it by hand')
  const weight =
    'bundle_version: &v 41\nbackends: { a: { url: https://a.example } }\nroutes: [{ backends: [{ name: a, weight: *v }] }]\npolicies: []\n'
  await expect(rolledBack(weight)).rejects.toThrow('publish it by hand')
})
