import { z } from 'zod'
import { isHostPattern } from '../patterns.ts'
import { keyPatterns } from './match.ts'
import { label } from './parts.ts'

const PATH = 'a path that starts with /, without ? or #'
/** Each segment takes memory in each worker, and no request has a longer path. */
const MAX_PATH_CHARACTERS = 8192
const path = z
  .string({ error: PATH })
  .regex(/^\/[^?#]*$/, { error: PATH })
  .max(MAX_PATH_CHARACTERS, { error: `at most ${MAX_PATH_CHARACTERS} characters` })

/** The members that select requests. */
const requestFields = {
  pathPrefix: path.optional().meta({ description: 'Whole segments: /api covers /api and /api/x, not /apix.' }),
  pathExact: path.optional().meta({ description: 'Only this path.' }),
  exceptPaths: z
    .array(path, { error: 'a list of paths' })
    .min(1, { error: 'at least one path (leave `exceptPaths` out to except none)' })
    .optional()
    .meta({ description: 'Paths that it does not cover, each with everything below it.' }),
  methods: z
    .array(z.string({ error: 'an HTTP method' }).regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/, { error: 'an HTTP method' }), {
      error: 'a list of HTTP methods',
    })
    .min(1, { error: 'at least one method (leave `methods` out to cover all)' })
    .optional()
    .meta({ description: 'HTTP methods, in any case.' }),
  hosts: z
    .array(
      z
        .string({ error: 'a host name or *.name, without scheme or path' })
        .refine(isHostPattern, { error: 'a host name or *.name, without scheme or path' }),
      { error: 'a list of hosts' },
    )
    .min(1, { error: 'at least one host (leave `hosts` out to cover all)' })
    .optional()
    .meta({ description: 'Host names, in any case; *.example.com covers every subdomain. Ports are ignored.' }),
}

const PATH_TWICE = { error: 'either pathPrefix or pathExact, not both' }

export const selectorSchema = z
  .object(
    {
      ...requestFields,
      domain: label.optional().meta({
        description: 'The domain of calls of the rate limit service (gRPC). Such a policy covers their descriptors, and no other request.',
      }),
      descriptors: keyPatterns('descriptors', 'an object of descriptor keys and patterns').optional().meta({
        description: 'With domain: the policy covers only descriptors with these keys, each with a value that one of its patterns covers.',
      }),
    },
    { error: 'an object' },
  )
  .refine((value) => value.pathPrefix === undefined || value.pathExact === undefined, PATH_TWICE)
  .refine(({ domain, descriptors, ...others }) => domain === undefined || Object.values(others).every((member) => member === undefined), {
    error: 'domain without pathPrefix, pathExact, exceptPaths, methods and hosts: calls of the rate limit service have none of them',
  })
  .refine(({ domain, descriptors }) => domain !== undefined || descriptors === undefined, {
    path: ['descriptors'],
    error: 'a domain beside it: only calls of the rate limit service have descriptors',
  })
  .meta({ description: 'Which requests the policy covers; all of them when it is empty or absent.' })

/** The selector of a route: only requests are routed. */
export const routeSelector = z
  .object(requestFields, { error: 'an object' })
  .refine((value) => value.pathPrefix === undefined || value.pathExact === undefined, PATH_TWICE)
  .meta({ description: 'Which requests the route covers; all of them when it is empty or absent.' })

export type Selector = z.output<typeof selectorSchema>
