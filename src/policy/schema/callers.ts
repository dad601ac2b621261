import { z } from 'zod'
import { isPlainPath } from '../../text/path.ts'
import { label } from './parts.ts'

/** Algorithms that may sign tokens. Nothing else is ever accepted: no shared secrets, and no unsigned tokens. */
export const JWT_ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const

export type JwtAlgorithm = (typeof JWT_ALGORITHMS)[number]

const MODE = '"enforce" or "shadow" (leave `mode` out to refuse nobody)'
const ENTRY_NAME = 'a name of 1 to 64 letters, digits, ".", "_" or "-", other than "key" in any case'
const LABEL_NAME = 'a name of 1 to 64 letters, digits, ".", "_" or "-", other than "id", "after" and "limit"'
const KEY_SET = 'exactly one of jwks_url and jwks_file'
const URL_TEXT = 'a URL with http:// or https://, without user name, password and fragment'
const FILE_NAME = 'the name of a file in EDGE_SECRETS_DIR, without a slash and not beginning with a dot'
const SKEW = 'a whole number from 0 to 300'
const EXCEPTED = 'a path that starts with /, of letters, digits, ".", "_", "~" and "-", that every backend reads alike'

const NAME = /^[A-Za-z0-9._-]{1,64}$/

const entryName = z
  .string({ error: ENTRY_NAME })
  .regex(NAME, { error: ENTRY_NAME })
  .refine((name) => name.toLowerCase() !== 'key', { error: ENTRY_NAME })
  .meta({ not: { pattern: '^[Kk][Ee][Yy]$' } })

/** `caller:id` is the identity, and `GET keys` has parameters named `after` and `limit`. */
const OTHER_NAMES = ['id', 'after', 'limit']

/** The names of labels. */
export const labelName = z
  .string({ error: LABEL_NAME })
  .regex(NAME, { error: LABEL_NAME })
  .refine((name) => !OTHER_NAMES.includes(name), { error: LABEL_NAME })
  .meta({ not: { enum: OTHER_NAMES } })

const labelSource = z.object(
  {
    claim: label.meta({ description: 'The claim; a dotted name reaches into objects if no claim has exactly that name.' }),
    first: label.optional().meta({
      description:
        'A text, or a prefix that ends in *, for a claim that is a list of texts: of the members that match, the alphabetically first is the label.',
    }),
    default: label.optional().meta({ description: 'The label of tokens without such a claim; without it, they lack the label.' }),
  },
  { error: 'an object with claim' },
)

const jwtEntry = z
  .object(
    {
      name: entryName.meta({ description: 'Part of caller:id, so that the identities of two issuers never collide.' }),
      issuer: label.meta({ description: 'The exact value of the claim iss; it chooses the entry.' }),
      audiences: z
        .array(label, { error: 'a list of audiences' })
        .min(1, { error: 'at least one audience (["*"] accepts any)' })
        .max(32, { error: 'at most 32 audiences' })
        .refine((audiences) => audiences.length === 1 || !audiences.includes('*'), { error: '"*" alone, because it accepts any audience' })
        .meta({ description: 'The claim aud must name one of these; ["*"] accepts any.' }),
      jwks_url: label
        .refine(isPlainUrl, { error: URL_TEXT })
        .optional()
        .meta({ description: 'Where the key set is fetched; EDGE_BACKEND_HOSTS must allow its host.' }),
      jwks_file: z
        .string({ error: FILE_NAME })
        .regex(/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/, { error: FILE_NAME })
        .optional()
        .meta({ description: 'Name of a file in EDGE_SECRETS_DIR with the key set.' }),
      algorithms: z
        .array(z.enum(JWT_ALGORITHMS, { error: `one of ${JWT_ALGORITHMS.join(', ')}` }), { error: 'a list of algorithms' })
        .min(1, { error: 'at least one algorithm (leave `algorithms` out for those of the keys)' })
        .optional()
        .meta({ description: 'Accepted algorithms; without it RS256 for RSA keys, and what their curve states for others.' }),
      clock_skew_seconds: z.int({ error: SKEW }).min(0, { error: SKEW }).max(300, { error: SKEW }).default(60).meta({
        description: 'How far the clocks of issuer and edge may differ when exp and nbf are checked.',
      }),
      labels: z
        .record(labelName, labelSource, { error: 'an object of labels' })
        .refine((labels) => Object.keys(labels).length <= 32, { error: 'at most 32 labels' })
        .default({})
        .meta({ description: 'Labels of the verified caller by name; rules read them as caller:<label>.' }),
    },
    { error: 'an object with name, issuer, audiences and jwks_url or jwks_file' },
  )
  .refine(({ jwks_url, jwks_file }) => (jwks_url === undefined) !== (jwks_file === undefined), { error: KEY_SET })

const KEY_SOURCE = '"bearer" or "header:<name>"'
/** Fields that carry something else. */
const OTHER_FIELDS = /^header:(?:authorization|proxy-authorization|cookie|host|forwarded|x-forwarded-.*|x-original-.*|x-edge-.*)$/i

const keysEntry = z.object(
  {
    from: z
      .array(
        z
          .string({ error: KEY_SOURCE })
          .regex(/^(?:bearer|header:[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64})$/, { error: KEY_SOURCE })
          .refine((place) => !OTHER_FIELDS.test(place), { error: 'a header field of its own for keys ("bearer" reads Authorization)' }),
        { error: 'a list of places' },
      )
      .min(1, { error: 'at least one place (leave `from` out for "bearer")' })
      .max(8, { error: 'at most 8 places' })
      .refine((places) => new Set(places.map((place) => place.toLowerCase())).size === places.length, { error: 'each place once' })
      .default(['bearer'])
      .meta({ description: 'Where issued keys are read.' }),
  },
  { error: 'an object' },
)

/** Who is known: verified tokens and issued keys. */
export const callersSchema = z
  .object(
    {
      mode: z.enum(['enforce', 'shadow'], { error: MODE }).optional().meta({
        description:
          'enforce answers 401 to requests without a verified caller; shadow only records it; without mode, callers are read where they verify.',
      }),
      except_paths: z
        .array(
          z
            .string({ error: EXCEPTED })
            .max(1024, { error: 'at most 1024 characters' })
            .refine((path) => /^\/[A-Za-z0-9._~/-]*$/.test(path) && isPlainPath(path), { error: EXCEPTED })
            .refine((path) => path !== '/', { error: 'a path below / (leave `mode` out to refuse nobody)' }),
          { error: 'a list of paths' },
        )
        .min(1, { error: 'at least one path (leave `except_paths` out to except none)' })
        .max(100, { error: 'at most 100 paths' })
        .optional()
        .meta({ description: 'Paths that need no verified caller, each with everything below it.' }),
      except_preflights: z.boolean({ error: 'true or false' }).optional().meta({
        description:
          'Whether CORS preflights (OPTIONS with Origin and Access-Control-Request-Method), which browsers send without credentials, need no verified caller.',
      }),
      jwt: z
        .array(jwtEntry, { error: 'a list of issuers' })
        .min(1, { error: 'at least one issuer (leave `jwt` out to verify no tokens)' })
        .max(32, { error: 'at most 32 issuers' })
        .optional()
        .meta({ description: 'Issuers whose tokens are verified. With it, jwt:<claim> reads verified tokens only.' }),
      keys: keysEntry.optional().meta({ description: 'Keys that edge issues.' }),
    },
    { error: 'an object with jwt or keys' },
  )
  .refine(({ jwt, keys }) => jwt !== undefined || keys !== undefined, { error: 'at least one of jwt and keys' })
  .meta({ description: 'Who is known: verified tokens and issued keys.' })

export type Callers = z.output<typeof callersSchema>
export type JwtEntry = z.output<typeof jwtEntry>
export type LabelSource = z.output<typeof labelSource>

function isPlainUrl(text: string): boolean {
  if (!/^https?:\/\/[^/?#@\\\s]+(?:[/?][^#\\\s]*)?$/.test(text)) return false
  return URL.canParse(text)
}
