import { sized } from '../run/property-runs.ts'
import { type BadBundle, bad, PRINTABLE } from './bad-json-bundles.ts'

const CONFIG = 'policies[0].spec.rules[0].algorithm_config'

export const BAD_YAML: readonly BadBundle[] = [
  bad('an empty file', '', 'it is empty'),
  bad('nothing but a comment', '# to be written\n', 'not YAML: '),
  bad('prose', 'may this request go on?', 'expected an object with bundle_version and policies, got "may this request go on?"'),
  bad('an open bracket', 'bundle_version: 1000\npolicies: [', 'not YAML: '),
  bad('half-written YAML', 'bundle_version: 1000\npolicies:\n  - id: p\n    spec:\n      rules:\n        - name: "r', 'not YAML: '),
  bad(
    'YAML cut between two fields',
    'bundle_version: 1000\npolicies:\n  - id: p\n    spec:\n      rules:\n        - name: r\n',
    'policies[0].spec.rules[0].algorithm: expected "token_bucket", ',
    'policies[0].spec.rules[0].limit_keys: expected a list of descriptor keys, but it is missing',
  ),
  bad('tabs', 'bundle_version: 1000\npolicies:\n\t- id: p\n', 'not YAML: '),
  bad('a key that comes twice', 'bundle_version: 1000\nbundle_version: 1001\npolicies: []\n', 'not YAML: '),
  bad('two documents', 'bundle_version: 1000\npolicies: []\n---\nbundle_version: 1001\npolicies: []\n', 'not YAML: '),
  bad(
    'bytes that are no UTF-8',
    Buffer.concat([Buffer.from('bundle_version: 1000\npolicies: []\n# '), Buffer.from([0xc3, 0x28])]),
    'it is not valid UTF-8',
  ),
  bad('aliases that multiply', aliasBomb(), 'not YAML'),
  bad(
    'a list in itself',
    `bundle_version: 1000\npolicies: [ &a [${'1,'.repeat(sized(1000, 90_000))}*a] ]\n`,
    'policies[0]: it contains itself',
  ),
  bad('a note in itself', 'bundle_version: 1000\nmetadata: &a { b: *a }\npolicies: []\n', 'it contains itself'),
  ...['.nan', '.NaN', '.inf', '-.inf', '-1', '0', '~', '1e999'].flatMap((number) => [
    bad(`tokens_per_second ${number}`, yamlBucket(number, '10'), `${CONFIG}.tokens_per_second: expected a number above 0`),
    bad(`burst ${number}`, yamlBucket('1', number), `${CONFIG}.burst: expected a number of at least 1`),
  ]),
  ...['.nan', '.inf', '-1', '0', '~', '"NaN"'].map((number) =>
    bad(`cost ${number}`, yamlRule('token_bucket', `{ rate: 1/second, cost: ${number} }`), `${CONFIG}.cost: expected a number above 0`),
  ),
  bad('version .inf', 'bundle_version: .inf\npolicies: []\n', 'bundle_version: expected a whole number'),
  bad('version .nan', 'bundle_version: .nan\npolicies: []\n', 'bundle_version: expected a whole number'),
  bad('control characters', 'bundle_version: 1000\npolicies: [{ id: "a\\x07", spec: { rules: [] } }]\n', `policies[0].id: ${PRINTABLE}`),
  bad(
    'pathprefix for pathPrefix',
    'bundle_version: 1000\npolicies: [{ id: a, spec: { selector: { pathprefix: /a }, rules: [] } }]\n',
    'policies[0].spec.selector: unknown field "pathprefix": did you mean "pathPrefix"?',
  ),
]

function yamlBucket(perSecond: string, burst: string): string {
  return yamlRule('token_bucket', `{ tokens_per_second: ${perSecond}, burst: ${burst} }`)
}

function yamlRule(algorithm: string, config: string): string {
  const rule = `{ name: r, limit_keys: [], algorithm: ${algorithm}, algorithm_config: ${config} }`
  return `bundle_version: 1000\npolicies: [{ id: p, spec: { rules: [${rule}] } }]\n`
}

/** Fifty kilobytes that stand for 25 million rules. */
function aliasBomb(): string {
  const rule = '{ name: r, limit_keys: [], algorithm: token_bucket, algorithm_config: { tokens_per_second: 1, burst: 5 } }'
  const rules = `[&r ${rule}${', *r'.repeat(5000)}]`
  return `bundle_version: 1000\npolicies:\n- &p { id: p, spec: { rules: ${rules} } }\n${'- *p\n'.repeat(5000)}`
}
