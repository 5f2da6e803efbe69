-- Private buckets and who may touch what is in them. The first folder of a path names the run or checkpoint it hangs on.

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
  ('media', 'media', false, 500 * 1024 * 1024, null)
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
as $$ select bucket in ('datasets', 'model-checkpoints', 'logs', 'evaluation-results', 'media') $$;

create function internal.object_run_id(bucket text, name text) returns uuid
language plpgsql stable security definer set search_path = ''
as $$
-- The run that a file hangs on, or NULL. In plpgsql, which looks for the tables when it runs: they are made by later migrations.
begin
  if bucket in ('model-checkpoints', 'logs', 'media') then
    return internal.object_folder_id(name);
  elsif bucket = 'evaluation-results' then
    return (select c.training_run_id from public.model_checkpoints c where c.id = internal.object_folder_id(name));
  end if;
  return null;
end
$$;

create function internal.owns_object(bucket text, name text, object_owner text) returns boolean
language sql stable set search_path = ''
as $$
  -- What lies in the folder of a run or a checkpoint is the run owner's; everything else is its uploader's.
  select case
    when not internal.is_workspace_bucket(bucket) then false
    when bucket = 'datasets' or internal.object_folder_id(name) is null then object_owner = auth.uid()::text
    else coalesce(internal.owns_run(internal.object_run_id(bucket, name)), false)
  end
$$;

create policy "members read workspace files" on storage.objects for select to authenticated
  using (internal.is_workspace_bucket(bucket_id) and (select internal.is_member()));
create policy "anyone reads files of public runs" on storage.objects for select to anon
  using (internal.is_public_run(internal.object_run_id(bucket_id, name)));
create policy "editors add files to what they own" on storage.objects for insert to authenticated
  with check (internal.is_workspace_bucket(bucket_id) and ((select internal.is_admin())
    or ((select internal.is_editor()) and internal.owns_object(bucket_id, name, owner_id))));
create policy "owners change their files" on storage.objects for update to authenticated
  using (internal.is_workspace_bucket(bucket_id) and ((select internal.is_admin())
    or ((select internal.is_editor()) and internal.owns_object(bucket_id, name, owner_id))))
  with check (internal.is_workspace_bucket(bucket_id) and ((select internal.is_admin())
    or ((select internal.is_editor()) and internal.owns_object(bucket_id, name, owner_id))));
create policy "owners delete their files" on storage.objects for delete to authenticated
  using (internal.is_workspace_bucket(bucket_id) and ((select internal.is_admin())
    or ((select internal.is_editor()) and internal.owns_object(bucket_id, name, owner_id))));

revoke execute on function internal.object_folder_id, internal.object_run_id, internal.owns_object, internal.is_workspace_bucket from public;
grant execute on function internal.object_folder_id, internal.object_run_id, internal.owns_object, internal.is_workspace_bucket to anon, authenticated, service_role;
