import { z } from 'zod'
import { label } from './parts.ts'

/** Algorithms that may sign tokens. Nothing else is ever accepted: no shared secrets, and no unsigned tokens. */
export const JWT_ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const

export type JwtAlgorithm = (typeof JWT_ALGORITHMS)[number]

const MODE = '"enforce" or "shadow"'
const ENTRY_NAME = 'a name of 1 to 64 letters, digits, ".", "_" or "-", other than "key"'
const LABEL_NAME = 'a name of 1 to 64 letters, digits, ".", "_" or "-", other than "id", "after" and "limit"'

const entryName = z.string({ error: ENTRY_NAME }).regex(/^(?!key$)[A-Za-z0-9._-]{1,64}$/, { error: ENTRY_NAME })

/** The names of labels; `GET keys` has parameters named `after` and `limit`. */
export const labelName = z.string({ error: LABEL_NAME }).regex(/^(?!(?:id|after|limit)$)[A-Za-z0-9._-]{1,64}$/, { error: LABEL_NAME })

const labelSource = z.object(
  {
    claim: label.meta({ description: 'The claim; a dotted name reaches into objects if no claim has exactly that name.' }),
    first: label.optional().meta({
      description: 'A pattern for a claim that is a list of texts: of the members that match, the alphabetically first is the label.',
    }),
    default: label.optional().meta({ description: 'The label of tokens without such a claim; without it, they lack the label.' }),
  },
  { error: 'an object with claim' },
)

const jwtEntry = z.object(
  {
    name: entryName.meta({ description: 'Part of caller:id, so that the identities of two issuers never collide.' }),
    issuer: label.meta({ description: 'The exact value of the claim iss; it chooses the entry.' }),
    audiences: z
      .array(label, { error: 'a list of audiences' })
      .min(1, { error: 'at least one audience (["*"] accepts any)' })
      .max(32, { error: 'at most 32 audiences' })
      .meta({ description: 'The claim aud must name one of these; ["*"] accepts any.' }),
    jwks_url: label.optional().meta({ description: 'Where the key set is fetched; EDGE_BACKEND_HOSTS must allow its host.' }),
    jwks_file: label.optional().meta({ description: 'Name of a file in EDGE_SECRETS_DIR with the key set.' }),
    algorithms: z
      .array(z.enum(JWT_ALGORITHMS, { error: JWT_ALGORITHMS.join(', ') }), { error: 'a list of algorithms' })
      .min(1, { error: 'at least one algorithm' })
      .optional()
      .meta({ description: 'Accepted algorithms; without it RS256 for RSA keys, and what their curve states for others.' }),
    clock_skew_seconds: z
      .int({ error: 'a whole number from 0 to 300' })
      .min(0, { error: 'a whole number from 0 to 300' })
      .max(300, { error: 'a whole number from 0 to 300' })
      .default(60),
    labels: z.record(labelName, labelSource, { error: 'an object of labels' }).default({}),
  },
  { error: 'an object with name, issuer, audiences and jwks_url or jwks_file' },
)

const KEY_SOURCE = '"bearer" or "header:<name>"'

const keysEntry = z.object(
  {
    from: z
      .array(z.string({ error: KEY_SOURCE }).regex(/^(?:bearer|header:[!#$%&'*+.^_`|~0-9A-Za-z-]+)$/, { error: KEY_SOURCE }), {
        error: 'a list of places',
      })
      .min(1, { error: 'at least one place' })
      .max(8, { error: 'at most 8 places' })
      .default(['bearer'])
      .meta({ description: 'Where issued keys are read.' }),
  },
  { error: 'an object' },
)

/** Who is known: verified tokens and issued keys. */
export const callersSchema = z.object(
  {
    mode: z.enum(['enforce', 'shadow'], { error: MODE }).optional().meta({
      description:
        'enforce answers 401 to requests without a verified caller; shadow only records it; without mode, callers are read where they verify.',
    }),
    except_paths: z.array(z.string(), { error: 'a list of paths' }).optional(),
    jwt: z.array(jwtEntry, { error: 'a list of issuers' }).max(32, { error: 'at most 32 issuers' }).optional(),
    keys: keysEntry.optional(),
  },
  { error: 'an object' },
)

export type Callers = z.output<typeof callersSchema>
export type JwtEntry = z.output<typeof jwtEntry>
export type LabelSource = z.output<typeof labelSource>
