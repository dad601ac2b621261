/** As much of JSON Schema as the bundle's schema and that of the admin API use. A keyword that it does not know is an error, lest one be ignored. */
export function matches(schema: Schema, value: unknown): boolean {
  return Object.entries(schema).every(([keyword, rule]) => {
    const check = KEYWORDS[keyword]
    if (check === undefined) throw new Error(`a keyword of JSON Schema that is not known here: ${keyword}`)
    return check(rule as never, value, schema)
  })
}

export type Schema = Readonly<Record<string, unknown>>

type Check = (rule: never, value: unknown, schema: Schema) => boolean

const anything = (): boolean => true

const KEYWORDS: Readonly<Record<string, Check>> = {
  $schema: anything,
  title: anything,
  description: anything,
  default: anything,
  type: (rule: string, value) => typeOf(value) === rule || (rule === 'number' && typeOf(value) === 'integer'),
  exclusiveMinimum: (rule: number, value) => typeof value !== 'number' || value > rule,
  allOf: (rule: Schema[], value) => rule.every((part) => matches(part, value)),
  const: (rule: unknown, value) => value === rule,
  enum: (rule: unknown[], value) => rule.includes(value),
  minimum: (rule: number, value) => typeof value !== 'number' || value >= rule,
  maximum: (rule: number, value) => typeof value !== 'number' || value <= rule,
  pattern: (rule: string, value) => typeof value !== 'string' || new RegExp(rule).test(value),
  maxLength: (rule: number, value) => typeof value !== 'string' || value.length <= rule,
  minItems: (rule: number, value) => !Array.isArray(value) || value.length >= rule,
  maxItems: (rule: number, value) => !Array.isArray(value) || value.length <= rule,
  items: (rule: Schema, value) => !Array.isArray(value) || value.every((item) => matches(rule, item)),
  anyOf: (rule: Schema[], value) => rule.some((option) => matches(option, value)),
  oneOf: (rule: Schema[], value) => rule.filter((option) => matches(option, value)).length === 1,
  not: (rule: Schema, value) => !matches(rule, value),
  format: anything,
  minLength: (rule: number, value) => typeof value !== 'string' || value.length >= rule,
  minProperties: (rule: number, value) => !isRecord(value) || Object.keys(value).length >= rule,
  propertyNames: (rule: Schema, value) => !isRecord(value) || Object.keys(value).every((name) => matches(rule, name)),
  required: (rule: string[], value) => !isRecord(value) || rule.every((name) => Object.hasOwn(value, name)),
  properties: (rule: Record<string, Schema>, value) =>
    !isRecord(value) || Object.entries(value).every(([name, member]) => !Object.hasOwn(rule, name) || matches(rule[name]!, member)),
  patternProperties: (rule: Record<string, Schema>, value) =>
    !isRecord(value) ||
    Object.entries(value).every(([name, member]) =>
      Object.entries(rule).every(([pattern, schema]) => !new RegExp(pattern).test(name) || matches(schema, member)),
    ),
  additionalProperties: (rule: boolean | Schema, value, { properties = {}, patternProperties = {} }) =>
    rule === true ||
    !isRecord(value) ||
    Object.entries(value).every(
      ([name, member]) =>
        Object.hasOwn(properties as object, name) ||
        Object.keys(patternProperties as object).some((pattern) => new RegExp(pattern).test(name)) ||
        (rule !== false && matches(rule, member)),
    ),
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : typeof value
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeOf(value) === 'object'
}
