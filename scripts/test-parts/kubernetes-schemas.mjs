// Writes a strict JSON Schema for each kind of object, in the files that kubeconform looks for: KIND-GROUP-VERSION.json.
// Usage: node kubernetes-schemas.mjs DIRECTORY SWAGGER.JSON CRD.YAML…
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { load } from 'js-yaml'

const [directory, swagger, ...crds] = process.argv.slice(2)
writeKinds(JSON.parse(readFileSync(swagger, 'utf8')).definitions)
for (const crd of crds) writeCustomKind(load(readFileSync(crd, 'utf8')))

/** Definitions refer to one another: each file has those that its kind needs. */
function writeKinds(definitions) {
  const strictDefinitions = Object.fromEntries(Object.entries(definitions).map(([name, each]) => [name, strict(known(name) ?? each)]))
  for (const [name, { 'x-kubernetes-group-version-kind': kinds = [] }] of Object.entries(definitions)) {
    // Options of a request are of every group, and are no objects that anybody applies.
    if (kinds.length !== 1) continue
    const needed = Object.fromEntries(Array.from(reachable(strictDefinitions, name), (each) => [each, strictDefinitions[each]]))
    write(kinds[0], { $ref: `#/definitions/${name}`, definitions: needed })
  }
}

/** Two definitions say `string`, where the server also takes numbers. */
function known(name) {
  if (name.endsWith('.util.intstr.IntOrString') || name.endsWith('.api.resource.Quantity')) return { type: ['string', 'number'] }
  return undefined
}

function reachable(definitions, name, found = new Set()) {
  if (found.has(name)) return found
  found.add(name)
  for (const [, next] of JSON.stringify(definitions[name]).matchAll(/"\$ref":"#\/definitions\/([^"]+)"/g))
    reachable(definitions, next, found)
  return found
}

function writeCustomKind({ spec: { group, names, versions } }) {
  for (const { name: version, schema } of versions) {
    const { properties, ...rest } = schema.openAPIV3Schema
    // The description leaves open what every object has.
    write(
      { group, version, kind: names.kind },
      { ...strict(rest), properties: { ...strictProperties(properties), metadata: { type: 'object' } } },
    )
  }
}

/** Refuses members that nobody would read. */
function strict(schema) {
  if (schema === null || typeof schema !== 'object') return schema
  if (schema['x-kubernetes-int-or-string']) return { type: ['string', 'integer'] }
  const { properties, items, additionalProperties, ...rest } = schema
  const result = { ...rest }
  if (items !== undefined) result.items = strict(items)
  if (additionalProperties !== undefined) result.additionalProperties = strict(additionalProperties)
  if (properties !== undefined) {
    result.properties = strictProperties(properties)
    if (additionalProperties === undefined && !schema['x-kubernetes-preserve-unknown-fields']) result.additionalProperties = false
  }
  return result
}

function strictProperties(properties) {
  return Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, strict(each)]))
}

function write({ group, version, kind }, schema) {
  // kubeconform knows a group by its first word.
  const name = [kind, ...(group === '' ? [] : [group.split('.')[0]]), version].join('-').toLowerCase()
  writeFileSync(join(directory, `${name}.json`), JSON.stringify(schema))
}
