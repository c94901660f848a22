-- What PostgreSQL's image runs once, in a new volume: the database of perftrend, and a user who owns it and may
-- do nothing else. Afterwards only processes in the container of the database can be its superuser.
\set password `cat /run/secrets/database_password`
CREATE ROLE perftrend LOGIN PASSWORD :'password';
CREATE DATABASE perftrend OWNER perftrend ENCODING 'UTF8' TEMPLATE template0;
ALTER ROLE postgres PASSWORD NULL;
