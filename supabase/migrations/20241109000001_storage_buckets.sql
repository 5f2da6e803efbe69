-- Private buckets, and which run a stored file belongs to. The first folder of a path is the id of a run or of a checkpoint.

insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types) values
  ('datasets', 'datasets', false, 50 * 1024 * 1024,
    array['application/json', 'application/jsonl', 'application/x-ndjson', 'text/csv', 'text/plain', 'application/zip',
          'application/gzip', 'application/vnd.apache.parquet', 'application/octet-stream']),
  ('model-checkpoints', 'model-checkpoints', false, 1024 * 1024 * 1024, null),
  ('logs', 'logs', false, 10 * 1024 * 1024,
    array['text/plain', 'text/csv', 'application/json', 'application/jsonl', 'application/x-ndjson', 'application/zip',
          'application/gzip', 'application/octet-stream']),
  ('evaluation-results', 'evaluation-results', false, 50 * 1024 * 1024,
    array['application/json', 'application/jsonl', 'application/x-ndjson', 'text/csv', 'text/plain', 'application/zip',
          'application/gzip', 'application/vnd.apache.parquet', 'application/octet-stream']),
  ('media', 'media', false, 500 * 1024 * 1024, null),
  ('task-files', 'task-files', false, 500 * 1024 * 1024, null),
  ('archives', 'archives', false, 500 * 1024 * 1024, null)
on conflict (id) do update
  set public = excluded.public, file_size_limit = excluded.file_size_limit, allowed_mime_types = excluded.allowed_mime_types;

create function internal.object_folder_id(name text) returns uuid
language sql immutable set search_path = ''
as $$
  -- The id that a path starts with, or NULL where it starts with something else.
  select case when split_part(name, '/', 1) ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
         then split_part(name, '/', 1)::uuid end
$$;

create function internal.is_workspace_bucket(bucket text) returns boolean
language sql immutable set search_path = ''
as $$ select bucket in ('datasets', 'model-checkpoints', 'logs', 'evaluation-results', 'media', 'task-files', 'archives') $$;

create function internal.object_run_id(bucket text, name text) returns uuid
language plpgsql stable security definer set search_path = ''
as $$
-- The run that a file belongs to, or NULL. In plpgsql, which looks tables up when it runs: later migrations create them.
begin
  if bucket in ('model-checkpoints', 'logs', 'media', 'archives') then
    return internal.object_folder_id(name);
  elsif bucket = 'evaluation-results' then
    return (select c.training_run_id from public.model_checkpoints c where c.id = internal.object_folder_id(name));
  end if;
  return null;
end
$$;

revoke execute on function internal.object_folder_id, internal.is_workspace_bucket, internal.object_run_id from public;
grant execute on function internal.object_folder_id, internal.is_workspace_bucket, internal.object_run_id
  to anon, authenticated, service_role;
